"""The `sandcell` command: the service's own verbs, and the client's. Each module holds the commands of one noun."""
