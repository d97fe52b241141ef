"""Environments made by principals, and agents: the services on a real SQLite database."""
