"""Processes of the sandbox: kernels and commands, how they start, end, are found and killed."""
