"""What one execution gives: its events while it runs, its outcome, its outputs in full. No session in it."""
