"""Drives a running service through `analysis.py`: one session, one call a cell, everything saved.

Run it with `make demo`, or directly: `python examples/flights/run.py [--url URL] [--token TOKEN] [--output DIRECTORY]`.
It may be run again; the files of the run before are replaced.
"""

from __future__ import annotations

import argparse
import calendar
import json
import re
import shutil
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandcell import Client, SandcellError, Session

HERE = Path(__file__).parent
DATA = HERE / "data"
RESULTS = ("results/summary.json", "results/model.csv", "results/predictions.csv", "by_airline.csv")
SHOWN_LINES = 24
STORY = (
    "{calls} calls in one session, each building on the variables and files of those before. Of {scheduled:,}"
    " departures from JFK in 2013, {cancelled:,} were cancelled; the others left {mean_delay:.1f} minutes late on"
    " average. It is worst on summer evenings ({month} around {worst_hour}:00), and was worst of all on"
    " {worst_day}. {latest_airline} ran latest. Hour, season and weather explain {r_squared:.0%} of how the mean delay"
    " differs from hour to hour on days the model had not seen; its error is {better:.0%} smaller than that of always"
    " expecting the mean."
)


@dataclass
class Cell:
    """One call: what it is about, and its code."""

    title: str
    code: str

    @property
    def name(self) -> str:
        """The first word of the title, for file names."""
        return re.sub(r"[^a-z]+", "-", self.title.partition(":")[0].lower()).strip("-")


def cells() -> list[Cell]:
    """The cells of `analysis.py`; each keeps its title as a comment, so that the notebook reads well."""
    text = (HERE / "analysis.py").read_text()
    found = re.split(r"^# %% ", text, flags=re.MULTILINE)[1:]
    return [Cell(each.partition("\n")[0], re.sub(r"  # noqa: \w+", "", f"# {each.strip()}\n")) for each in found]


class Demo:
    """One session and the directory that its plots and files go to."""

    def __init__(self, session: Session, output: Path) -> None:
        self.session = session
        self.output = output
        self.plots: list[Path] = []

    def upload(self) -> None:
        for path in sorted(DATA.glob("*.csv*")):
            self.session.upload(path.name, path)
            print(f"  uploaded {path.name}, {path.stat().st_size:,} bytes")

    def run(self, number: int, cell: Cell) -> None:
        """One call: says what it printed, saves what it drew."""
        heading(f"{number}. {cell.title}")
        started = time.monotonic()
        result = self.session.run(cell.code, timeout_seconds=120)
        seconds = time.monotonic() - started
        indented(re.sub(r"^<Figure size .*>\n?", "", result.text, flags=re.MULTILINE))
        if not result.ok:
            raise SystemExit(f"call {number} ended as {result.status}: {result.error or result.death}")
        for display in result.displays:
            if display.media_type == "image/png":
                self.plots.append(self.output / f"{len(self.plots) + 1}-{cell.name}.png")
                self.plots[-1].write_bytes(display.content)
                print(f"  plot: {self.plots[-1].name}, {len(display.content):,} bytes")
        print(f"  ({seconds:.2f} s)")

    def look(self, number: int) -> None:
        """A shell command in the same sandbox, on the files the cells wrote."""
        heading(f"{number}. Shell: the same files, seen by a command")
        command = self.session.command("ls -l results && head -n 4 results/model.csv", timeout_seconds=30)
        indented(command.stdout)
        if command.exit_code != 0:
            raise SystemExit(f"the command failed: {command.stderr}")

    def fetch(self) -> dict[str, Any]:
        """Download the results and the notebook; returns the summary."""
        for name in RESULTS:
            (self.output / Path(name).name).write_bytes(self.session.download(name))
        (self.output / "history.ipynb").write_bytes(self.session.notebook())
        summary: dict[str, Any] = json.loads((self.output / "summary.json").read_text())
        return summary


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def indented(text: str) -> None:
    lines = text.strip("\n").splitlines()
    for line in lines[:SHOWN_LINES]:
        print(f"  {line}")
    if len(lines) > SHOWN_LINES:
        print(f"  ... {len(lines) - SHOWN_LINES} more lines")


def what_you_saw(summary: dict[str, Any], calls: int) -> str:
    """The run in words, with its own numbers."""
    month = calendar.month_name[summary["worst_month"]]
    found = dict(
        summary, calls=calls, month=month, better=1 - summary["mean_error"] / summary["mean_error_without_model"]
    )
    return textwrap.fill(STORY.format(**found), width=100)


def show_paths(output: Path, plots: list[Path]) -> None:
    heading("Saved")
    for path in [*plots, *(output / Path(name).name for name in RESULTS), output / "history.ipynb"]:
        print(f"  {path}")
    print("  Open the notebook in any Jupyter tool.")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="the service's address; default: as `sandcell` finds it")
    parser.add_argument("--token", help="a bearer token; default: as `sandcell` finds it")
    parser.add_argument("--output", type=Path, default=HERE / "output", help="where to put plots and files")
    options = parser.parse_args(arguments)
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    calls = cells()
    with Client(options.url, options.token) as client, client.session(name="flights") as session:
        print(f"session {session.id}")
        demo = Demo(session, options.output.resolve())
        demo.upload()
        for number, cell in enumerate(calls, start=1):
            demo.run(number, cell)
        demo.look(len(calls) + 1)
        summary = demo.fetch()
    show_paths(demo.output, demo.plots)
    heading("What you saw")
    print(what_you_saw(summary, len(calls) + 1))


if __name__ == "__main__":
    try:
        main()
    except SandcellError as error:
        sys.exit(f"{error}\nIs the service running? Start it with: make run")
