"""`sandcell serve`, `doctor` and `token recover`: what is done on the service's own host."""

from __future__ import annotations

import gc

import click

from kernel_gateway.cli.options import configured, configured_briefly
from kernel_gateway.settings import Settings
from sandcell import exits
from sandcell.cli.options import as_json
from sandcell.cli.screen import say, show_json, show_table


@click.command(epilog=exits.explain())
@configured
def serve(settings: Settings) -> None:
    """Start the service, and stay until SIGTERM or Ctrl-C.

    Every setting may be given as a flag, as a SANDCELL_* variable or in a TOML file; flags win over variables, and
    those over the file. Secrets have no flag.
    """
    gc.disable()  # this process is soon replaced by another program: what it has imported until then is no garbage
    from kernel_gateway.server.starting import serve as run  # noqa: PLC0415 - the client's verbs need none of it

    run(settings)


@click.command()
@as_json
@click.option("--host-only", is_flag=True, help="Before a build: no environment, no store; silent when all is well.")
@configured_briefly
def doctor(settings: Settings, *, as_json: bool, host_only: bool) -> None:
    """Say what this host can and cannot enforce. Fails when something required is missing."""
    from kernel_gateway.server.doctor import run  # noqa: PLC0415

    findings = run(settings, host_only=host_only)
    refused = any(not finding.ok and finding.required for finding in findings)
    if as_json:
        show_json(findings)
    elif refused or not host_only:
        rows = [("ok" if each.ok else "NO", each.name, each.detail, each.remedy) for each in findings]
        show_table(("", "CHECK", "FOUND", "WHAT TO DO"), rows)
    if refused:
        say("sandcell: this host does not do yet: see the lines that begin with NO")
        raise click.exceptions.Exit(exits.REFUSED)


@click.command(short_help="Make another administrator's token; as root, on the service's host.")
@configured
def recover(settings: Settings) -> None:
    """Make another token of the administrator when all are lost, and save it for this user's commands.

    This is done on the service's host, as root, with its settings. The service may run; earlier tokens count on.
    """
    from kernel_gateway.server.recovery import recover_token  # noqa: PLC0415 - the client's verbs need none of it

    found = recover_token(settings)
    click.echo(found.token)
    kept = f"saved in {found.path}" if found.path else f"not saved ({found.error}): hand it on as SANDCELL_TOKEN"
    say(f"token {found.token_id} of admin, {kept}; `sandcell token ls` and `token revoke` end what was lost")
