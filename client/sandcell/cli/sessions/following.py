"""An execution as a person sees it: text as it comes, Ctrl-C interrupts, plots become files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from sandcell import Client, Result
from sandcell.cli.screen import say, write
from sandcell.cli.terminal_text import colour_traceback
from sandcell.models.executions import Event
from sandcell.result import display_of, join_text


@dataclass
class Follower:
    """Prints the events of one execution. `quiet`: prints nothing, and only takes care of Ctrl-C."""

    client: Client
    session_id: str
    quiet: bool = False
    last: int = 0
    interrupts: int = 0

    def follow(self, execution_id: str) -> Result:
        """Stay until the execution has ended. The second Ctrl-C leaves at once."""
        while True:
            try:
                for event in self.client.events(self.session_id, execution_id, after=self.last):
                    self._show(event)
                    self.last = event.sequence
                return self.client.wait(self.session_id, execution_id)
            except KeyboardInterrupt:
                # `last` is the last event that was shown whole: after the interrupt the events go on behind it.
                self.interrupts += 1
                if self.interrupts > 1:
                    raise
                say("interrupting; press Ctrl-C again to leave without waiting")
                self.client.interrupt_execution(self.session_id, execution_id)

    def _show(self, event: Event) -> None:
        if self.quiet:
            return
        data = event.data
        match event.event:
            case "stream":
                stream = sys.stderr if data.get("name") == "stderr" else sys.stdout
                write(join_text(data.get("text", "")), stream=stream)
            case "result" | "display":
                self._show_rich(data.get("data", {}))
            case "memory":
                say(f"[{data.get('detail', '')}]")
            case "truncated":
                say(f"[some output is left out: {data.get('detail') or 'it came faster than it was read'}]")
            case _:
                pass

    def _show_rich(self, data: dict[str, Any]) -> None:
        display = display_of(data)
        text = join_text(data.get("text/plain", ""))
        if text and (display is None or display.media_type == "text/html"):
            write(text + "\n", stream=sys.stdout)


def show_outcome(result: Result) -> None:
    """Say on standard error how it ended, when not well; on a terminal the traceback is in colours."""
    if result.error is not None:
        lines = result.error.traceback or [f"{result.error.name}: {result.error.value}"]
        text = "\n".join(lines)
        write((colour_traceback(text) if sys.stderr.isatty() else text) + "\n", stream=sys.stderr)
    if result.status == "timeout":
        say("the execution's time was up")
    if result.death is not None:
        say(f"the kernel died ({result.death.cause}): {result.death.detail}")
    if result.sync.mode == "before_return" and result.sync.error:
        say(f"the files are {'not ' if not result.sync.durable else ''}in the store: {result.sync.error}")
    cut = result.truncated
    if cut.stdout or cut.stderr or cut.outputs:
        say(f"[cut: {cut.stdout:,} bytes of stdout, {cut.stderr:,} of stderr, {cut.outputs:,} of other output]")
