"""People's Jupyter clients on a live session: their tokens, their connections, what they send."""
