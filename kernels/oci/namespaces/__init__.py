"""Mount and user namespaces: what the service and a runtime see of the host, and under which ids."""
