"""The process that holds one sandbox for a caller of its own, and removes it when the caller is gone, however it went.

Words: the *caller* started the keeper and holds the other end of its stdin and stdout; the *bridge* is the directory of
Unix sockets at which the caller's Jupyter clients reach the sandbox's kernel. The caller's side is kernels.provisioner.
"""
