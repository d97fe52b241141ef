"""Commands that work on this host and ask no service: `serve`, `doctor`, `token recover`, images, `kernelspec`."""
