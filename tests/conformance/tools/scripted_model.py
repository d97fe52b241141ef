"""A model that follows a script, at the addresses of OpenAI's, Anthropic's and Google's interfaces, on loopback.

It calls `run_python`, or else the first tool that it is offered, once and then says what came of it. Without tools it
writes code, as smolagents' CodeAgents do, and at Google's address as agents of its Development Kit do.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CODE = "print(sum(range(10)))"
THOUGHT = "Thought: I compute it.\n<code>\nx = sum(range(10))\nprint(x)\n</code>"
FINAL = "Thought: I have it.\n<code>\nfinal_answer(f'It is {x}.')\n</code>"
ARGUMENTS = json.dumps({"code": CODE})


def answer_chat(body: dict[str, Any]) -> dict[str, Any]:
    results = [each for each in body["messages"] if each["role"] == "tool"]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if not results and not body.get("tools"):
        told = [each for each in body["messages"] if "Execution logs" in json.dumps(each)]
        message["content"] = FINAL if told else THOUGHT
    elif results:
        message["content"] = f"It is {read_text(results[-1]['content'])}."
    else:
        function = {"name": choose(each["function"]["name"] for each in body["tools"]), "arguments": ARGUMENTS}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": usage,
    }


def answer_responses(body: dict[str, Any]) -> dict[str, Any]:
    results = [each for each in body["input"] if each.get("type") == "function_call_output"]
    if results:
        content = [{"type": "output_text", "text": f"It is {read_text(results[-1]['output'])}.", "annotations": []}]
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    else:
        name = choose(each["name"] for each in body["tools"])
        item = {"type": "function_call", "id": "f", "call_id": "call_1", "name": name, "arguments": ARGUMENTS}
    about = {"id": "r", "object": "response", "created_at": 1, "model": "scripted", "status": "completed"}
    return about | {"output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def answer_messages(body: dict[str, Any]) -> dict[str, Any]:
    blocks = [part for each in body["messages"] if isinstance(each["content"], list) for part in each["content"]]
    results = [each for each in blocks if each["type"] == "tool_result"]
    about = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "stop_sequence": None}
    about["usage"] = {"input_tokens": 1, "output_tokens": 1}  # type: ignore[assignment]
    if results:
        said = {"type": "text", "text": f"It is {read_text(results[-1]['content'])}."}
        return about | {"content": [said], "stop_reason": "end_turn"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "run_python", "input": {"code": CODE}}
    return about | {"content": [call], "stop_reason": "tool_use"}


def answer_generate_content(body: dict[str, Any]) -> dict[str, Any]:
    results = [part for each in body["contents"] for part in each["parts"] if "codeExecutionResult" in part]
    results += [part for each in body["contents"] for part in each["parts"] if "tool_output" in part.get("text", "")]
    text = f"It is {re.findall('[0-9]+', json.dumps(results[-1]))[-1]}." if results else f"```python\n{CODE}\n```"
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": "scripted", "usageMetadata": {"totalTokenCount": 2}}


def choose(offered: Iterable[str]) -> str:
    names = list(offered)
    return "run_python" if "run_python" in names else names[0]


def read_text(content: Any) -> str:
    return (content if isinstance(content, str) else "".join(each["text"] for each in content)).strip()


ANSWERS = {
    "/v1/chat/completions": answer_chat,
    "/v1/responses": answer_responses,
    "/v1/messages": answer_messages,
    "/v1beta/models/gemini-2.5-flash:generateContent": answer_generate_content,
}


def stream_chat(completion: dict[str, Any]) -> bytes:
    """A completion as the events of a stream: the whole message, then why it ends."""
    choice = completion["choices"][0]
    message = choice["message"]
    if "tool_calls" in message:
        message["tool_calls"] = [{"index": 0, **each} for each in message["tool_calls"]]
    ends = [{"index": 0, "delta": message}, {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]
    chunks = [completion | {"object": "chat.completion.chunk", "choices": [each], "usage": None} for each in ends]
    return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer, streams = ANSWERS[self.path.partition("?")[0]](body), bool(body.get("stream"))
        data = stream_chat(answer) if streams else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing: what is asked is the tests' own."""


@contextmanager
def serve() -> Iterator[str]:
    """The address of the model, while the block lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
