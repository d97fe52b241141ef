"""What `sandcell serve` says to the person who started it."""

from __future__ import annotations

import msgspec

from kernel_gateway.hosts import in_brackets
from kernel_gateway.settings import Settings
from kernels.errors import KernelsError
from kernels.launcher.client import LauncherRuntime


class Starter(msgspec.Struct, frozen=True):
    """The person who started the service: where the first token is saved, whether it was before, what `sandcell` is."""

    token_path: str
    token_saved: bool
    command: str


async def greet(
    settings: Settings, port: int, first_token: str | None, starter: Starter, launcher: LauncherRuntime
) -> None:
    """Print the address, the administrator's token when it can be shown, and three lines to try.

    The token is saved for the commands of the user who started the service.
    """
    say(f"Sandcell listens on {settings.scheme}://{in_brackets(settings.host)}:{port}")
    say(f"  data      {settings.data_dir}")
    say(f"  store     {settings.store_url.partition('?')[0]}")
    say(f"  token     {await _describe_token(settings, first_token, starter, launcher)}")
    if settings.access_key_id:
        say(f"  key       {settings.access_key_id}   (the administrator's access key; its secret is as given)")
    say("Try, in another terminal:")
    say(f"  {starter.command} run 'x = 41'")
    say(f"  {starter.command} run 'x + 1'")
    say(f"  {starter.command} notebook get -o history.ipynb")


async def _describe_token(
    settings: Settings, first_token: str | None, starter: Starter, launcher: LauncherRuntime
) -> str:
    """What to say of the token. A token that was given is not repeated: it may be in no log so far."""
    token = first_token or settings.token
    if not token:
        return _describe_earlier_token(starter)
    try:
        await launcher.save_token(token)
    except (OSError, KernelsError) as error:
        return f"{first_token or 'as given'}   (could not be saved: {error}; hand it on as SANDCELL_TOKEN)"
    return f"{first_token or 'as given'}   (the administrator's; saved in {starter.token_path})"


def _describe_earlier_token(starter: Starter) -> str:
    """What to say of a token that was made at an earlier start."""
    if not starter.token_saved:
        return f"the one shown at the first start; if it is lost, as root: {starter.command} token recover"
    return f"as saved in {starter.token_path} at an earlier start"


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  (this is the command's output)
