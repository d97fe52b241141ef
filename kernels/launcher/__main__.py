"""The launcher as a program: `python -I <this file> DESCRIPTOR`, where the descriptor holds a `Plan`.

Run by its path, so that nothing but this installation and its environment is on the path of what runs as root.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent.parent)]

    gc.disable()  # what is imported stays: looking for garbage in it takes a third of this start
    from kernels.launcher.process import main

    gc.freeze()
    gc.enable()
    main(int(sys.argv[1]))
