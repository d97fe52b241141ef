"""Queries on where sessions are: at which gateway, and what the store has of them as they were."""
