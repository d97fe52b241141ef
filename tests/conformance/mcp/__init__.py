"""MCP: other people's clients, unmodified, over both transports."""
