"""What the client can ask of the service, one module a subject. No I/O: `steps` says how an operation is written."""
