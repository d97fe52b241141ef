"""The guest's first lines: make this directory a package, whatever it is called, and start.

Started as a directory (`python3 -I -B /opt/sandcell/guest`), Python puts that directory itself on the path; its parent
belongs there instead, so that modules here import each other relatively, inside the sandbox as on the host. Packages
that were put beside an image come before the image's own: this process is not the image's.
"""

import gc
import os
import sys
from importlib import import_module

KERNEL_PACKAGES = "/opt/sandcell/kernel"

if __name__ == "__main__":
    gc.disable()  # until the server is there: a tenth of its start would be collections among modules that all stay
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = os.path.dirname(here)
    if os.path.isdir(KERNEL_PACKAGES):
        sys.path.insert(1, KERNEL_PACKAGES)
    import_module(os.path.basename(here) + ".boot").main(sys.argv[1:])
