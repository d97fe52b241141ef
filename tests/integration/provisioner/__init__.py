"""Programs that run kernels of their own, with the kernel `sandcell-python`."""
