"""The host's side of a sandbox's guest: HTTP over sockets that only the runtime can reach."""
