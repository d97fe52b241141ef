"""Environments and agents: those of the host, those that principals make, and their way to the network."""
