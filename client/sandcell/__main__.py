"""`sandcell`, also as `python -m sandcell`."""

from __future__ import annotations

from sandcell.cli.main import sandcell


def main() -> None:
    """Entry point of the `sandcell` command."""
    sandcell(prog_name="sandcell")


if __name__ == "__main__":
    main()
