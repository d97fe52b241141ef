#!/usr/bin/env python3
"""Writes the generated tables into docs/: settings, routes, errors, limits. `--check` only compares.

A table stands between `<!-- NAME: made by scripts/docs.py -->` and `<!-- end of NAME -->`. The code is the source;
what a bound is and what happens at it is said in docs/bounds.toml, which must name every bound there is and no other.
"""

from __future__ import annotations

import ast
import html
import importlib
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
sys.path.insert(0, str(REPOSITORY))

import click  # noqa: E402

import kernel_gateway  # noqa: E402
from kernel_gateway import settings  # noqa: E402
from kernel_gateway.errors import GatewayError  # noqa: E402
from kernel_gateway.faces.agent_engine import errors as agent_engine_errors  # noqa: E402
from kernel_gateway.faces.agent_engine import table as agent_engine  # noqa: E402
from kernel_gateway.faces.agentcore import errors as agentcore_errors  # noqa: E402
from kernel_gateway.faces.agentcore import operations  # noqa: E402
from kernel_gateway.faces.console import routes as console  # noqa: E402
from kernel_gateway.faces.e2b import routes as e2b  # noqa: E402
from kernel_gateway.faces.jupyter import routes as jupyter  # noqa: E402
from kernel_gateway.faces.librechat import routes as librechat  # noqa: E402
from kernel_gateway.faces.rest import table as routes  # noqa: E402
from kernels.oci.seccomp import ALLOWED  # noqa: E402
from sandcell.cli.main import sandcell  # noqa: E402
from scripts import agentcore_clients, data_image  # noqa: E402

PACKAGES = ("kernel_gateway", "kernels", "workspace_sync", "client/sandcell")
BOUNDS = REPOSITORY / "docs" / "bounds.toml"
BOUND_NAME = re.compile(r"(^|_)(BYTES|MAX|MOST|KEPT|LONGEST|THREADS|CHUNKS?)(_|$)")
BOUND_SETTINGS = (
    *(
        "live_sessions",
        "hibernated_sessions",
        "hibernated_mb",
        "checkpoints_per_session",
        "checkpoints_mb",
        "sessions_per_principal",
        "starts_at_once",
        "queue_length",
        "program_unfollowed_seconds",
    ),
    *("pool_starts_at_once", "pool_memory_mb"),
    *("connections", "connections_per_address", "invocations_per_second", "requests_per_second"),
    "failed_authentications_per_second",
    *("environments_per_principal", "agents_per_principal", "datasets_per_workspace"),
    *("added_images", "added_images_per_principal", "added_builds_at_once", "added_build_seconds"),
    *("files_listed", "transfer_threads", "memory_mb", "storage_mb", "pids", "egress_connections", "egress_requests"),
    *("uploads_per_session", "uploads_per_principal", "upload_kept_seconds"),
    *("audit_records", "audit_files", "replays", "replays_per_principal", "replay_cells"),
)
UNTIL = "<!-- end of {0} -->"
FROM = "<!-- {0}: made by scripts/docs.py -->"


def documents() -> list[Path]:
    """The README, the other pages at the root, and all of docs/."""
    return [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").glob("**/*.md"))]


def rows(header: str, lines: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    rule = "|".join("---" for _ in header.split("|"))
    body = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n".join([f"| {header} |", f"|{rule}|", *body])


def setting_table() -> str:
    """Every setting with its unit, default, range and meaning."""
    return rows("setting | default | range | what", (_setting(row) for row in settings.table()))


def _setting(row: settings.Setting) -> tuple[str, ...]:
    default = f"`{shown(row.default)}`" if row.default != "" else "empty"
    if row.name == "data_dir":
        default = "`/var/lib/sandcell` for root, else `~/.local/share/sandcell`"
    span = ", ".join(f"`{choice}`" for choice in row.choices)
    if row.low is not None and row.high is not None:
        span = f"{shown(row.low)} to {shown(row.high)}"
    return f"`{row.name}`", default, span, row.help + (" (secret)" if row.secret else "")


def shown(value: Any) -> str:
    """A value as the docs write it: thousands apart, whole floats without a fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def route_table() -> str:
    """Every route of the REST face."""
    return rows("route | does", ((f"`{method} {path}`", what) for method, path, what in routes.list_routes()))


def jupyter_table() -> str:
    """Every address of the Jupyter face."""
    lines = ((method, f"`{path}`", success, summary) for method, path, success, summary in jupyter.list_routes())
    return rows("method | address | success | what", lines)


def e2b_table() -> str:
    """Every address of the E2B face."""
    lines = ((method, f"`{path}`", success, summary) for method, path, success, summary in e2b.list_routes())
    return rows("method | address | success | what", lines)


def console_table() -> str:
    """Every address of the console."""
    lines = ((method, f"`{path}`", success, summary) for method, path, success, summary in console.list_routes())
    return rows("method | address | success | what", lines)


def librechat_table() -> str:
    """Every address of the LibreChat face."""
    lines = ((method, f"`{path}`", success, summary) for method, path, success, summary in librechat.list_routes())
    return rows("method | address | success | what", lines)


def operation_table() -> str:
    """Every operation of the AgentCore face."""
    return rows(
        "operation | method | path | success",
        ((f"`{each.name}`", each.method, f"`{each.path}`", str(each.status)) for each in operations.TABLE),
    )


def agent_engine_table() -> str:
    """Every operation of the Agent Engine face."""
    lines = ((f"`{e.name}`", e.method, f"`{_shorten(e.path)}`", e.note) for e in agent_engine.TABLE)
    return rows("operation | method | address | note", lines)


def _shorten(path: str) -> str:
    """An address without what all of them have in common."""
    return path.removeprefix(agent_engine.ENGINES.rpartition("/")[0])


def agent_engine_code_table() -> str:
    """What each error code is on the Agent Engine face."""
    found = ((error, agent_engine_errors.find_status(error)) for error in errors())
    lines = ((f"`{e.code}`", f"`{status}`", str(agent_engine_errors.STATUS[status])) for e, status in found)
    return rows("error of the service | on this face | status", lines)


def shape_table() -> str:
    """What each error code is on the AgentCore face."""
    found = ((error, refusal_shape(error)) for error in errors())
    return rows(
        "error of the service | on this face | status", ((f"`{e.code}`", f"`{s}`", str(n)) for e, (s, n) in found)
    )


def refusal_shape(error: type[GatewayError]) -> tuple[str, int]:
    """The shape of an error and its status."""
    shape = next(shape for kind, shape in agentcore_errors.SHAPES if issubclass(error, kind))
    return shape, error.status if error.code == "method_not_allowed" else agentcore_errors.STATUS[shape]


def error_table() -> str:
    """Every error code with its status, whether to retry, and what it means."""
    lines = ((f"`{e.code}`", str(e.status), "yes" if e.retryable else "no", _first(e)) for e in errors())
    return rows("code | status | retry unchanged | when", lines)


def errors() -> list[type[GatewayError]]:
    """One class per code, by status: the one nearest the root."""
    for module in pkgutil.walk_packages(kernel_gateway.__path__, "kernel_gateway."):
        if module.name.endswith(".errors"):
            importlib.import_module(module.name)
    found: dict[str, type[GatewayError]] = {}
    for one in _below(GatewayError):
        if "code" in vars(one) or "status" in vars(one) or one.__module__ == "kernel_gateway.errors":
            found.setdefault(one.code, one)
    return sorted(found.values(), key=lambda one: (one.status, one.code))


def _below(one: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for child in one.__subclasses__():
        if child.__module__.startswith("kernel_gateway."):
            yield child
            yield from _below(child)


def _first(one: type) -> str:
    return (one.__doc__ or "").strip().splitlines()[0].rstrip(".")


def limit_table() -> str:
    """The limits that a client can meet: the settings first, then those that are fixed."""
    said, values, met = bound_words(), bounds(), met_by_clients()
    lines = []
    for name, (what, then) in said.items():
        if "." not in name or what in met:
            setting = "" if "." in name else f"`{name}`"
            lines.append((what, human(name, values.get(name)), setting, then))
    return rows("what is limited | limit | setting | at the limit", lines)


def met_by_clients() -> set[str]:
    """What the fixed bounds bound that a client can meet."""
    return set(tomllib.loads(BOUNDS.read_text())["clients"]["meet"])


def bound_words() -> dict[str, tuple[str, str]]:
    """What docs/bounds.toml says of each bound."""
    read = tomllib.loads(BOUNDS.read_text())
    return {name: (what, then) for name, (what, then) in {**read["settings"], **read["fixed"]}.items()}


def not_bounds() -> set[str]:
    """Numbers whose names look like bounds, with the reason why they are none."""
    return set(tomllib.loads(BOUNDS.read_text())["not_bounds"])


@cache  # all modules are parsed for it
def bounds() -> dict[str, float]:
    """Every bound the code has: settings by name, constants and defaults by module and name."""
    found = {
        row.name: row.default
        for row in settings.table()
        if (row.name.endswith("_bytes") and row.type is int) or row.name in BOUND_SETTINGS
    }
    for path in sorted(path for package in PACKAGES for path in (REPOSITORY / package).glob("**/*.py")):
        if path != REPOSITORY / "kernel_gateway/settings.py":
            for name, value in _numbers(ast.parse(path.read_text())):
                found[f"{module_of(path)}.{name}"] = value
    return found


def module_of(path: Path) -> str:
    """The name by which a file of one of the packages is imported."""
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts).removeprefix("client.").removesuffix(".__init__")


def _numbers(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """Numbers of a module that bound something by their names: its constants, fields and arguments in bytes."""
    for node in tree.body:
        for name, value in _assigned(node):
            if name.isupper() and BOUND_NAME.search(name) and not name.endswith("_SECONDS"):
                yield from _number(name, value)
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                for name, value in _assigned(inner):
                    if name.endswith("_bytes") and not (isinstance(value, ast.Constant) and value.value == 0):
                        yield from _number(f"{node.name}.{name}", value)
    for call in ast.walk(tree):
        if isinstance(call, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = call.args
            keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            trailing = zip(reversed(arguments.args), reversed(arguments.defaults), strict=False)
            for argument, default in [*keywords, *trailing]:
                if argument.arg.endswith("_bytes") and default is not None and ast.unparse(default) != "0":
                    yield from _number(f"{call.name}.{argument.arg}", default)


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    value = getattr(node, "value", None)
    for target in targets:
        if isinstance(target, ast.Name) and value is not None:
            yield target.id, value


def _number(name: str, value: ast.expr) -> Iterator[tuple[str, float]]:
    """The value of an expression of plain numbers, as `64 * 1024`."""
    allowed = ast.Expression | ast.BinOp | ast.UnaryOp | ast.Constant | ast.operator | ast.unaryop
    if all(isinstance(part, allowed) for part in ast.walk(value)):
        number = eval(compile(ast.Expression(value), name, "eval"), {"__builtins__": {}})  # noqa: S307 - numbers only
        if isinstance(number, int | float):
            yield name, number


def human(name: str, value: float | None) -> str:
    """A bound with its unit; sizes as people write them."""
    if value is None:
        return "?"
    last = name.rsplit(".", 1)[-1].lower()
    if not re.search(r"(^|_)(bytes|chunk)(_|$)", last):
        unit = " a second" if last.endswith("_per_second") else " MB" if last.endswith("_mb") else ""
        return shown(value) + unit
    decimal, binary = (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)), (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
    for unit, size in decimal if value % 1000 == 0 else binary:
        if value >= size and value % size == 0:
            return f"{shown(value // size)} {unit}"
    return f"{shown(value)} bytes"


def seccomp_table() -> str:
    """The groups of system calls that a sandbox may make, each with its reason."""
    return rows("group | calls | why", ((name, str(len(calls.split())), why) for name, (why, calls) in ALLOWED.items()))


def command_table() -> str:
    """Every command of `sandcell`."""
    return rows("command | does", ((code(" ".join(words)), what) for words, what in commands(sandcell, ["sandcell"])))


def code(text: str) -> str:
    """As code, in a cell of a table: a bar in backticks is shown with its backslash on the site."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def commands(command: click.Command, words: list[str]) -> Iterator[tuple[list[str], str]]:
    """The words of every command below this one, and the first sentence of its help."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in dict.fromkeys([*command.commands, *command.list_commands(context)]):
            if (child := command.get_command(context, name)) is not None:
                yield from commands(child, [*words, name])
        return
    arguments = [
        parameter.make_metavar(click.Context(command)) for parameter in command.params if _positional(parameter)
    ]
    yield [*words, *arguments], " ".join((command.help or "").partition("\n\n")[0].split())


def _positional(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def client_table() -> str:
    """Which operations of AgentCore work through which client, as the conformance tests saw it."""
    return rows(agentcore_clients.header(), agentcore_clients.table_lines())


def size_table() -> str:
    """What builds of the images take, as the last ones that were tried took."""
    header = " | ".join(f"`{name}`" for name in data_image.IMAGES)
    return rows(f"as of the last build that was tried | {header}", data_image.size_lines())


def library_table() -> str:
    """The libraries of the image `data`, beside those that hosted services list."""
    return rows(data_image.header(), data_image.library_lines())


def tool_table() -> str:
    """Debian's packages in the image `data`."""
    return rows("Debian's package | version", data_image.tool_lines())


def missing_table() -> str:
    """What people look for in the image `data` and do not find."""
    return rows("what | why", data_image.missing_lines())


def kept_table() -> str:
    """What of each kind of object survives the death of a kernel; a test holds each line."""
    words = {"restored": "yes", "copied": "yes, `copied`"}
    kinds = tomllib.loads((REPOSITORY / "docs" / "kept_variables.toml").read_text())["kinds"]
    lines = ((each["kind"], words.get(each.get("outcome", "restored"), "no")) for each in kinds)
    return rows("kind of object | comes back", lines)


TABLES = {
    "kept-kinds": kept_table,
    "commands": command_table,
    "settings": setting_table,
    "routes": route_table,
    "errors": error_table,
    "limits": limit_table,
    "operations": operation_table,
    "agent-engine-operations": agent_engine_table,
    "agent-engine-codes": agent_engine_code_table,
    "jupyter-routes": jupyter_table,
    "e2b-routes": e2b_table,
    "console-routes": console_table,
    "librechat-routes": librechat_table,
    "shapes": shape_table,
    "seccomp": seccomp_table,
    "agentcore-clients": client_table,
    "data-image-sizes": size_table,
    "data-image-libraries": library_table,
    "data-image-tools": tool_table,
    "data-image-missing": missing_table,
}


def filled(text: str) -> str:
    """The page with its tables as the code has them now."""
    for name, table in TABLES.items():
        start, end = FROM.format(name), UNTIL.format(name)
        if start in text:
            before, _, rest = text.partition(start)
            after = rest.partition(end)[2]
            text = f"{before}{start}\n\n{table()}\n\n{end}{after}"
    return text


def main(arguments: list[str]) -> int:
    stale = [path for path in documents() if filled(path.read_text()) != path.read_text()]
    for path in stale:
        if "--check" in arguments:
            sys.stderr.write(f"{path.relative_to(REPOSITORY)} is behind the code; run scripts/docs.py\n")
        else:
            path.write_text(filled(path.read_text()))
            sys.stdout.write(f"{path.relative_to(REPOSITORY)} written\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
