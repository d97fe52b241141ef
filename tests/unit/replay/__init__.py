"""What counts as the same when a notebook runs again."""
