"""Datasets: files of a workspace under names, described in a sandbox of their own."""
