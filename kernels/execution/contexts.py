"""Where code is to run in a kernel, and with what: said to the kernel before the code goes out.

The Python kernel answers on its control channel; see `guest/in_kernel/contexts.py`. JavaScript's has one context: there
directory and variables are set by code that publishes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kernels.errors import SandboxFailed
from kernels.execution.execution import execute_request
from kernels.execution.hub import Hub

ANSWER_SECONDS: Final = 10.0


@dataclass(frozen=True)
class RunContext:
    """Names of its own, and where code begins. `name` is empty for the kernel's default context."""

    name: str = ""
    directory: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


async def enter(hub: Hub, context: RunContext) -> None:
    """Code that is sent next runs in this context, which is made when it is new; raises SandboxFailed."""
    content = {
        "context": context.name,
        "directory": context.directory,
        "variables": dict(context.variables),
    }
    await _ask(hub, content)


async def forget(hub: Hub, names: Sequence[str]) -> None:
    """Let go of the names of these contexts; raises SandboxFailed."""
    await _ask(hub, {"forget": list(names)})


_ENTER_JAVASCRIPT: Final = """{
  const key = Symbol.for("sandcell.context"), now = %s, directory = %s;
  const before = globalThis[key] ?? {replaced: {}, directory: ""}, replaced = {};
  for (const [name, value] of Object.entries(before.replaced)) {
    if (value === null) Deno.env.delete(name); else Deno.env.set(name, value);
  }
  for (const [name, value] of Object.entries(now)) {
    replaced[name] = Deno.env.get(name) ?? null;
    Deno.env.set(name, value);
  }
  if (directory && directory !== before.directory) Deno.chdir(directory);
  Object.defineProperty(globalThis, key, {value: {replaced, directory}, configurable: true});
} undefined"""


async def enter_javascript(hub: Hub, context: RunContext) -> None:
    """The same for Deno's kernel, which has one context."""
    variables, directory = json.dumps(dict(context.variables)), json.dumps(context.directory)
    content = execute_request(_ENTER_JAVASCRIPT % (variables, directory), silent=True)
    await hub.request("shell", "execute_request", content, deadline_seconds=ANSWER_SECONDS)


async def _ask(hub: Hub, content: dict[str, Any]) -> None:
    reply = await hub.request("control", "sandcell_context_request", content, deadline_seconds=ANSWER_SECONDS)
    if reply.content.get("status") != "ok":
        raise SandboxFailed(f"the kernel cannot enter the context: {str(reply.content.get('evalue'))[:300]}")
