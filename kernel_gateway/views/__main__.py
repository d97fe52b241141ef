"""`python -m kernel_gateway.views FORMAT MOST_BYTES MEMORY_BYTES SECONDS`: a notebook on stdin, a view on stdout.

Statuses: 0 done; 3 the notebook cannot be read, and stderr has the sentence; 4 or a signal: it took more than its
bounds, which this process sets for itself.
"""

from __future__ import annotations

import resource
import sys

from kernels.errors import InvalidNotebook

REFUSED = 3
TOO_LARGE = 4


def main() -> int:
    """Read, make, write."""
    wanted, most_bytes, memory_bytes, seconds = sys.argv[1], *map(int, sys.argv[2:5])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    notebook = sys.stdin.buffer.read()
    try:
        if wanted == "py":
            from kernel_gateway.views.script import script as make  # noqa: PLC0415 - the page's parts take a second
        else:
            from kernel_gateway.views.page import html as make  # noqa: PLC0415
        made = make(notebook, most_bytes)
    except InvalidNotebook as error:
        sys.stderr.write(str(error))
        return REFUSED
    except MemoryError:
        return TOO_LARGE
    sys.stdout.buffer.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
