"""The Model Context Protocol over the tools: its messages, one conversation of it, and its transport over stdio.

`messages` reads JSON-RPC, `conversation` answers it; both know no transport. The service serves the same over HTTP at
`/mcp`. Written for the revisions with an `initialize` handshake: https://modelcontextprotocol.io/specification/
"""
