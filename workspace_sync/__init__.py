"""A directory mirrored to an object store.

Knows nothing of kernels, HTTP or principals. The directory is hostile: other processes write to it while it is read, so
no link in it is followed and no special file opened.
"""
