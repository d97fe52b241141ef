"""The operator's package index, as sandboxes reach it: its pages and files, and nothing else of its server.

A sandbox asks for a package's page and for the files that stand in it. The service fetches both, with the index's
credentials, which the sandbox never has. Files that the page gives a SHA-256 for are kept for the next who asks.
"""
