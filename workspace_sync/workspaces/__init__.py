"""Durable files without a live session: listed, read, changed, copied, packed."""
