"""Replays: a notebook's cells run again, and the verdict on each."""
