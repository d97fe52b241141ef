"""Commands of the service's host."""
