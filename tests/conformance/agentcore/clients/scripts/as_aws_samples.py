"""Programs in the shapes of AWS's own samples of the Code Interpreter, with nothing but AWS's helper.

`as_aws_samples.py ROUNDS CODE...` runs each code that often in each shape, several at a time, and reports what every
tool returned: text, or the name of the exception that the program would have died of.
"""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter, code_session

REGION = "us-west-2"
AT_ONCE = 6
CODES = {
    "print": "print('done')",
    "pandas": "import pandas\nprint('done')",
    "sleep 2": "import time\ntime.sleep(2)\nprint('done')",
    "sleep 30": "import time\ntime.sleep(30)\nprint('done')",
    "plot": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('done')",
    "scipy": "from scipy import stats\nassert stats.norm.cdf(0) == 0.5\nprint('done')",
    "seaborn": "import matplotlib.pyplot as plt\nimport seaborn\nseaborn.heatmap([[1, 2]])\nplt.show()\nprint('done')",
    "sklearn": "from sklearn.cluster import KMeans\nKMeans(2).fit([[0], [1], [9]])\nprint('done')",
}


def ask(client: CodeInterpreter, code: str) -> Any:
    return client.invoke("executeCode", {"code": code, "language": "python", "clearContext": False})


def session_per_call(code: str) -> str:
    """The stream is read after the session was stopped."""
    with code_session(REGION) as code_client:
        response = ask(code_client, code)
    for event in response["stream"]:
        return json.dumps(event["result"])
    return "nothing"


def session_kept(code: str) -> str:
    """The tool of an agent whose session goes on."""
    code_client = CodeInterpreter(REGION)
    code_client.start(session_timeout_seconds=1200)
    try:
        response = ask(code_client, code)
        for event in response["stream"]:
            return json.dumps(event["result"])
        return "nothing"
    finally:
        code_client.stop()


def attempt(shape: Callable[[str], str], code: str) -> str:
    try:
        return shape(code)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(rounds: int, names: list[str]) -> None:
    shapes = (session_per_call, session_kept)
    runs = [(f"{shape.__name__}: {name}", shape, CODES[name]) for name in names for shape in shapes] * rounds
    with ThreadPoolExecutor(AT_ONCE) as pool:
        returned = list(pool.map(lambda run: (run[0], attempt(run[1], run[2])), runs))
    json.dump(returned, sys.stdout)


main(int(sys.argv[1]), sys.argv[2:])
