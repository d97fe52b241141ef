"""Verbs of this host that need no service: `serve`, `doctor`, `token recover`, images, `kernelspec`, verification."""
