"""Sandboxes as pods of a Kubernetes cluster: one pod a session, its guest reached over TCP with mutual TLS.

`runtime` is the `SandboxRuntime`, found by entry point. `cluster` asks the API server, `manifests` says what of; `pods`
makes them, or `claimed_pods` claims those of agent-sandbox, asked for by `claims`. `certificates` makes the keys of one
sandbox, `streams` reaches a guest, `images` packs what nodes run.
"""
