"""Access keys on a real database and a real service."""
