"""A sandbox with its kernels: Python, Deno and Node; how they are launched, restarted and found dead."""
