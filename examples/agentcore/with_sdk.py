"""The same service through the `bedrock-agentcore` SDK's own helper, as agents and agent frameworks call it.

Which service it is, the usual environment variables say, set before this starts: see README.md.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import boto3
from bedrock_agentcore.tools.code_interpreter_client import code_session

ORDERS = "item,price,pieces\nbolt,0.40,120\nnut,0.15,200\nwasher,0.05,300\n"
TOTAL = """
import csv

with open("orders.csv") as file:
    orders = list(csv.DictReader(file))
total = sum(float(order["price"]) * int(order["pieces"]) for order in orders)
print(f"{len(orders)} orders, {total:.2f} in all")
with open("total.txt", "w") as file:
    file.write(f"{total:.2f}")
"""


def text(answer: dict[str, Any]) -> str:
    """The text of the result at the end of an answer's event stream."""
    results = [event["result"] for event in answer["stream"] if "result" in event]
    return "\n".join(block["text"] for block in results[-1]["content"] if block["type"] == "text").strip()


def main() -> None:
    if not os.environ.get("BEDROCK_AGENTCORE_DP_ENDPOINT"):
        sys.exit("BEDROCK_AGENTCORE_DP_ENDPOINT is not set, so this would run at AWS; see README.md")
    region = boto3.Session().region_name or "us-east-1"
    with code_session(region) as interpreter:
        interpreter.upload_file("orders.csv", ORDERS)
        print(text(interpreter.execute_code(TOTAL)))
        print(text(interpreter.execute_code("print(len(orders))")))
        print(text(interpreter.execute_command("wc -l < orders.csv")))
        print(interpreter.download_file("total.txt"))
        interpreter.clear_context()
        print(text(interpreter.execute_code("print('orders' in globals())")))


if __name__ == "__main__":
    main()
