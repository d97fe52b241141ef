"""Verbs that work on this host and need no service: `serve`, `doctor`, `kernelspec`, builds, verification."""
