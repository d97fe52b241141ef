"""The only privileged process, and how the service speaks with it.

The *launcher* runs as root: it makes and removes sandboxes (`kernels.oci`) and starts the *service*, which listens on
the network and runs as a user of its own without capabilities. They speak over one pair of sockets in packets (`wire`):
a closed set of requests, the methods of `SandboxRuntime`, each checked (`checks`) before anything is done (`server`).
`client` is the service's end, `process` the launcher's life, `confine` what the service gives up before it begins.
"""
