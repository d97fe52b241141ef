"""What `sandcell serve` says to the person who started it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

from kernel_gateway.settings import Settings
from kernels.errors import KernelsError
from kernels.launcher.client import LauncherRuntime


@dataclass(frozen=True)
class SavedTokens:
    """Where the launcher saves the first token, and whether it did so at an earlier start."""

    path: str
    before: bool


async def greet(
    settings: Settings, port: int, first_token: str | None, tokens: SavedTokens, launcher: LauncherRuntime
) -> None:
    """Print the address, the administrator's token when it can be shown, and three lines to try.

    The token is saved for the commands of the user who started the service.
    """
    say(f"Sandcell listens on {settings.scheme}://{settings.host}:{port}")
    say(f"  data      {settings.data_dir}")
    say(f"  store     {settings.store_url.partition('?')[0]}")
    say(f"  token     {await _token(settings, first_token, tokens, launcher)}")
    if settings.access_key_id:
        say(f"  key       {settings.access_key_id}   (the administrator's access key; its secret is as given)")
    command = "sandcell" if shutil.which("sandcell") else f"{sys.executable} -m kernel_gateway"
    say("Try, in another terminal:")
    say(f"  {command} run 'x = 41'")
    say(f"  {command} run 'x + 1'")
    say(f"  {command} notebook get -o history.ipynb")


async def _token(settings: Settings, first_token: str | None, tokens: SavedTokens, launcher: LauncherRuntime) -> str:
    """What to say of the token. A token that was given is not repeated: it may be in nobody's logs so far."""
    token = first_token or settings.token
    if not token:
        return _earlier_token(tokens)
    try:
        await launcher.save_token(token)
    except (OSError, KernelsError) as error:
        return f"{first_token or 'as given'}   (could not be saved: {error}; hand it on as SANDCELL_TOKEN)"
    return f"{first_token or 'as given'}   (the administrator's; saved in {tokens.path})"


def _earlier_token(tokens: SavedTokens) -> str:
    """What to say of a token that was made at an earlier start."""
    if not tokens.before:
        return "the one shown at the first start; make another with `sandcell token create`"
    return f"as saved in {tokens.path} at an earlier start"


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  (this is the command's output)
