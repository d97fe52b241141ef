"""Queries on what the store has of sessions as they were, which nobody sees among their files."""
