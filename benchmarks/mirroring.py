"""Files to an S3 server and back: a mirror against `rclone sync` and `aws s3 sync`, in turn, with peak memory of each.

A row per thing to do, for each of three servers: the seconds and MiB of all three, the ratio to the faster of the other
two. Theirs is the time of the command, ours that of the flush or restore in a process that runs already, as the service
does; what is in the store afterwards is compared with what was sent. Each has a server of its own, which comes to rest
between two measures.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.doubles.s3_servers import ACCESS_KEY, BIN, BUCKET, bare_s3_server
from tests.running_service import RunningService

DEADLINE_SECONDS = 3600
REST_SECONDS = 6.0
"""Ceph tidies up for some seconds after a write."""
ATTEMPTS = 3
KB = 10_000
THEIRS = ("rclone", "aws")
TOOLS = (*THEIRS, "mirror")


@dataclass
class Figures:
    """Seconds and peak bytes of each, by what was done."""

    rows: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)

    def add(self, row: str, tool: str, seconds: float, peak_bytes: int) -> None:
        self.rows.setdefault(row, {})[tool] = (seconds, peak_bytes)

    def __str__(self) -> str:
        return "".join(f"\n  {name}: {_format_row(row)}" for name, row in self.rows.items())


def _format_row(row: dict[str, tuple[float, int]]) -> str:
    figures = ", ".join(f"{tool} {seconds:.2f} s {peak >> 20} MiB" for tool, (seconds, peak) in row.items())
    seconds, memory = row["mirror"]
    times = seconds / min(row[tool][0] for tool in THEIRS)
    return f"{figures}; time x {times:.2f}, memory x {memory / min(row[tool][1] for tool in THEIRS):.2f}"


class Peer:
    """Our process (`mirroring_peer`)."""

    def __init__(self, endpoint: str) -> None:
        url = f"s3://{BUCKET}?endpoint_url={quote(endpoint, safe='')}&region=us-east-1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mirroring_peer", url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
        )  # fmt: skip

    def ask(self, verb: str, directory: Path, prefix: str) -> tuple[float, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{verb} {directory} {prefix}\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return told["seconds"], told["peak_bytes"]

    def close(self) -> None:
        self._process.communicate(timeout=60)


Change = Callable[[Path], None]


@dataclass(frozen=True)
class Comparison:
    """The three, one after the other, from one directory to a server of their own and back.

    Of their own, since a server's memory and what it has hashed by now differ for the one that comes second.
    """

    figures: Figures
    row: str
    kind: str
    top: Path
    rest_seconds: float

    def run(self, changed: tuple[str, Change] | None) -> None:
        """Upload, then once more after a change, then restore."""
        with contextlib.ExitStack() as stack:
            at = {tool: stack.enter_context(bare_s3_server(self.kind, self._server_directory(tool))) for tool in TOOLS}
            with contextlib.closing(Peer(at["mirror"])) as peer:
                self._up("first upload", at, peer)
                if changed is not None:
                    changed[1](self._source)
                    self._up(changed[0], at, peer)
            self._down(at)

    @property
    def _source(self) -> Path:
        return self.top / "source"

    def _server_directory(self, tool: str) -> Path:
        """rclone's server makes a directory twice when two writes need it, and loses files: it finds ours there."""
        directory = self._make_directory(f"{tool}-server")
        if self.kind == "rclone" and tool == "mirror":
            place = directory / "buckets" / BUCKET / "mirror" / "workspace"
            for each in (place, *(place / below.name for below in self._source.iterdir() if below.is_dir())):
                each.mkdir(parents=True)
        return directory

    def _make_directory(self, name: str) -> Path:
        directory = self.top / name
        directory.mkdir()
        return directory

    def _up(self, what: str, at: dict[str, str], peer: Peer) -> None:
        for tool in THEIRS:
            self._note(what, tool, _run_command(_command(tool, at[tool], str(self._source), None)))
        self._note(what, "mirror", peer.ask("flush", self._source, "mirror"))

    def _down(self, at: dict[str, str]) -> None:
        for tool in TOOLS:
            target = self._make_directory(tool)
            if tool == "mirror":
                with contextlib.closing(Peer(at[tool])) as peer:
                    self._note("restore", tool, peer.ask("restore", target, "mirror"))
            else:
                self._note("restore", tool, _run_command(_command(tool, at[tool], None, str(target))))
            same = subprocess.run(["diff", "-rq", self._source, target], capture_output=True, check=False)
            assert same.returncode == 0, f"{self.row}: {tool} brought something else: {same.stdout[:500]!r}"
            shutil.rmtree(target)

    def _note(self, what: str, tool: str, measured: tuple[float, int]) -> None:
        self.figures.add(f"{self.row}, {what}", tool, *measured)
        time.sleep(self.rest_seconds)


def run(_service: RunningService, _environments: Path, rounds: int = 7) -> str:
    """Few and small files when `rounds` is small."""
    short = rounds < 7
    figures = Figures()
    many, large, most = (20, 9_000_000, 50) if short else (10_000, 10**9, 100_000)
    for kind in ("rclone",) if short else ("rclone", "moto", "ceph"):
        _compare(figures, kind, f"{many:,} files of 10 KB", lambda top: _tree(top, many, KB), None, short=short)
        _compare(
            figures,
            kind,
            f"one file of {large:,} bytes",
            lambda top: _one(top, large),
            ("renamed", _rename),
            short=short,
        )
        if kind == "rclone":
            changed = ("10 changed", _change_ten)
            _compare(
                figures, kind, f"{most:,} files of 100 bytes", lambda top: _tree(top, most, 100), changed, short=short
            )
    return str(figures)


def _compare(
    figures: Figures, kind: str, what: str, fill: Change, changed: tuple[str, Change] | None, *, short: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="scmirror", dir="/tmp") as name:
        Path(name, "source").mkdir()
        fill(Path(name, "source"))
        rest = 0.0 if kind == "moto" or short else REST_SECONDS
        Comparison(figures, f"{kind}, {what}", kind, Path(name), rest).run(changed)


def _command(tool: str, endpoint: str, source: str | None, target: str | None) -> list[str]:
    """The other's command; None stands for its place in the bucket."""
    if tool == "aws":
        place = f"s3://{BUCKET}/aws"
        options = ["--delete", "--endpoint-url", endpoint, "--only-show-errors"]
        return [str(BIN / "aws"), "s3", "sync", *options, source or place, target or place]
    key_id, secret = ACCESS_KEY
    place = (
        f":s3,provider=Other,access_key_id={key_id},secret_access_key={secret},region=us-east-1,"
        f"force_path_style=true,endpoint='{endpoint}':{BUCKET}/rclone"
    )
    return [str(BIN / "rclone"), "sync", "--config", "/dev/null", source or place, target or place]


def _run_command(command: list[str]) -> tuple[float, int]:
    """Of the first attempt that succeeds: rclone's server at times refuses what comes while it moves an object."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(AssertionError):
            return _measure(command)
    return _measure(command)


def _measure(command: list[str]) -> tuple[float, int]:
    """Seconds, and the most memory the process had."""
    began, peak = time.monotonic(), 0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=_environment())
        try:
            while process.poll() is None and time.monotonic() - began < DEADLINE_SECONDS:
                with contextlib.suppress(OSError, ValueError):
                    text = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
                    peak = max(peak, int(text.partition("VmHWM:")[2].split()[0]) * 1024 if "VmHWM:" in text else 0)
                time.sleep(0.02)
            seconds = time.monotonic() - began
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        assert process.returncode == 0, said.read()[-2000:]
    return seconds, peak


def _environment() -> dict[str, str]:
    key_id, secret = ACCESS_KEY
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _tree(top: Path, count: int, size: int) -> None:
    for number in range(count):
        directory = top / f"{number % 100:02}"
        directory.mkdir(exist_ok=True)
        (directory / f"{number:06}.bin").write_bytes(os.urandom(size))


def _one(top: Path, size: int) -> None:
    with (top / "large.bin").open("wb") as file:
        for piece in _pieces(size):
            file.write(os.urandom(piece))


def _pieces(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, 1 << 20)
        size -= 1 << 20


def _rename(top: Path) -> None:
    (top / "large.bin").rename(top / "renamed.bin")


def _change_ten(top: Path) -> None:
    for path in sorted(top.rglob("*.bin"))[:10]:
        path.write_bytes(os.urandom(200))
