"""The console over HTTP: its documents, signing in, and what its cookie opens."""
