"""Runs of code on a kernel: the hub on its sockets, one run from request to outcome, its outputs within caps."""
