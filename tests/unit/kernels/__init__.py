"""Pure parts of the kernels package."""
