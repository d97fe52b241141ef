"""Google's clients of Agent Engine code execution, unmodified, against the real service."""
