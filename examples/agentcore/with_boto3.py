"""A year of weather in a code interpreter session: stock boto3, and nothing that knows whose service it talks to.

Files go in and out, variables stay from call to call, an exception is an answer, a command runs in the background.
Which service it is, the usual environment variables say: see README.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import boto3

INTERPRETER = "aws.codeinterpreter.v1"
DATA = Path(__file__).parent.parent / "flights" / "data" / "weather-jfk-2013.csv.gz"
TASK_SECONDS = 30

LOAD = """
import pandas as pd

weather = pd.read_csv("weather.csv.gz")
print(f"{len(weather):,} hours of {weather['year'].iloc[0]} at New York's JFK airport")
"""
GROUP = """
months = weather.groupby("month").agg(temp=("temp", "mean"), rain=("precip", "sum"))
months.round(2).to_csv("months.csv")
wettest = months["rain"].idxmax()
print(f"most rain in month {wettest}: {months.loc[wettest, 'rain']:.2f} inches")
"""
PLOT_WRONG = """
months["temperature"].plot.bar()
"""
PLOT = """
import matplotlib.pyplot as plt

axes = months["temp"].plot.bar(title="JFK, 2013", ylabel="mean temperature in F")
plt.savefig("temperature.png")
plt.show()
"""
JAVASCRIPT = """
const rows = Deno.readTextFileSync("months.csv").trim().split("\\n").slice(1).map((row) => row.split(",").map(Number));
console.log(`coldest: month ${rows.sort((a, b) => a[1] - b[1])[0][0]}`);
"""


class Session:
    """A session of the code interpreter; it is stopped at the end of its `with` block."""

    def __init__(self, client: Any) -> None:
        self.client = client
        started = client.start_code_interpreter_session(
            codeInterpreterIdentifier=INTERPRETER, name="weather", sessionTimeoutSeconds=600
        )
        self.names = {"codeInterpreterIdentifier": INTERPRETER, "sessionId": started["sessionId"]}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_code_interpreter_session(**self.names)

    def invoke(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call one of the tools; the result at the end of its event stream."""
        answer = self.client.invoke_code_interpreter(**self.names, name=tool, arguments=arguments)
        result: dict[str, Any] = next(event["result"] for event in answer["stream"] if "result" in event)
        return result

    def run(self, code: str, language: str = "python") -> None:
        """Run code, and show what it printed, drew or raised."""
        result = self.invoke("executeCode", language=language, code=code)
        for block in result["content"]:
            if result["isError"]:
                say(f"raised {block['text'].splitlines()[-1]}")
            else:
                say(block["text"])

    def wait(self, task_id: str) -> dict[str, Any]:
        """What a background command said in the end."""
        ends = time.monotonic() + TASK_SECONDS
        while time.monotonic() < ends:
            task: dict[str, Any] = self.invoke("getTask", taskId=task_id)["structuredContent"]
            if task["taskStatus"] not in ("submitted", "working"):
                return task
            time.sleep(0.2)
        raise TimeoutError(f"the task {task_id} still runs after {TASK_SECONDS} s")


def say(text: str) -> None:
    print("\n".join(f"   {line}" for line in text.splitlines()))


def work(session: Session) -> None:
    """Everything the example does in its session."""
    print("1. A file goes in, and code reads it")
    written = session.invoke("writeFiles", content=[{"path": "weather.csv.gz", "blob": DATA.read_bytes()}])
    say(written["content"][0]["text"])
    session.run(LOAD)
    print("2. The next call finds its variables")
    session.run(GROUP)
    print("3. An exception is an answer; the variables are still there")
    session.run(PLOT_WRONG)
    session.run(PLOT)
    print("4. A shell command sees the same files")
    say(session.invoke("executeCommand", command="head -n 3 months.csv")["structuredContent"]["stdout"])
    print("5. So does JavaScript, in a kernel of its own")
    session.run(JAVASCRIPT, "javascript")
    print("6. A command runs in the background")
    started = session.invoke("startCommandExecution", command="sleep 1; wc -l months.csv")
    task = session.wait(started["structuredContent"]["taskId"])
    say(f"{task['taskStatus']}: {task['stdout'].strip()}")
    print("7. Files come out")
    listed = session.invoke("listFiles", directoryPath="")["content"]
    say("there are " + ", ".join(sorted(entry["name"] for entry in listed if not entry["name"].startswith("."))))
    for entry in session.invoke("readFiles", paths=["months.csv", "temperature.png"])["content"]:
        file = entry["resource"]
        say(f"{file['uri']}: {file['mimeType']}, {'text' if 'text' in file else 'bytes'}")


def main() -> None:
    client = boto3.client("bedrock-agentcore")
    if client.meta.endpoint_url.endswith(".amazonaws.com"):
        sys.exit("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE is not set, so this would run at AWS; see README.md")
    with Session(client) as session:
        work(session)
    ended = client.get_code_interpreter_session(**session.names)
    print(f"8. The session is {ended['status']}")


if __name__ == "__main__":
    main()
