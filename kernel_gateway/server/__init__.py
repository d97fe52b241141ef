"""The service as processes on a host: checks of the host, the start as root, the HTTP server, its files."""
