"""What callers do in a live session: run code and commands, look at variables and outputs, lease it, read it."""
