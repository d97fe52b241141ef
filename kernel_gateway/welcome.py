"""What `sandcell serve` says to the person who started it."""

from __future__ import annotations

import shutil
import sys

from kernel_gateway.settings import Settings


def greet(settings: Settings, port: int, first_token: str | None) -> None:
    """Print the address, the administrator's token when this start made one, and three lines to try."""
    url = f"http://{settings.host}:{port}"
    say(f"Sandcell listens on {url}")
    say(f"  data      {settings.data_dir}")
    say(f"  store     {settings.store_url.partition('?')[0]}")
    if first_token is not None:
        say(f"  token     {first_token}   (the administrator's; it is shown this once)")
    command = "sandcell" if shutil.which("sandcell") else sys.argv[0]
    say("Try, in another terminal:")
    say(f"  {command} run 'x = 41'")
    say(f"  {command} run 'x + 1'")
    say(f"  {command} notebook -o history.ipynb")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  (this is the command's output)
