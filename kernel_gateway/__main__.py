"""The `sandcell` command as `python -m kernel_gateway`: the same verbs as of `python -m sandcell`."""

from __future__ import annotations

from sandcell.__main__ import main

if __name__ == "__main__":
    main()
