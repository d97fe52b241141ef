"""`sandcell`, also as `python -m kernel_gateway`."""

from __future__ import annotations

from kernel_gateway.cli.main import sandcell


def main() -> None:
    """Entry point of the `sandcell` command."""
    sandcell(prog_name="sandcell")


if __name__ == "__main__":
    main()
