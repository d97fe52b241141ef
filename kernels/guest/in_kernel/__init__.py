"""What runs inside the kernel's own process; started by path, so nothing here imports the rest of the guest."""
