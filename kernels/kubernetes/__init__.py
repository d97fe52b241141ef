"""Sandboxes as pods of a Kubernetes cluster: one pod a session, its guest reached over TCP with mutual TLS.

`runtime` is the `SandboxRuntime`, found by entry point. `cluster` asks the API server, `manifests` says what of,
`certificates` makes the keys of one sandbox, `streams` reaches a guest, `images` packs what nodes run.
"""
