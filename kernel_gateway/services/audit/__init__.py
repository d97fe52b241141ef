"""The audit log: what a record holds, where it is written and how it is read."""
