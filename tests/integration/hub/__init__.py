"""The hub and executions on it, with real kernels and with kernels that misbehave."""
