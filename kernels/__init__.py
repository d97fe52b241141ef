"""Sandboxed kernels: environments, sandboxes, the guest inside them, the hub that talks to a kernel, and its record.

Nothing here knows HTTP faces, principals, SQL or S3.
"""
