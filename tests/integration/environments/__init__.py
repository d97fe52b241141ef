"""Environments made by principals and agents, through the real service and the real command line."""
