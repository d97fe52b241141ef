"""The protocols of a kernel's sockets: ZMTP, signed Jupyter messages, what attached clients ask."""
