"""The verbs that the service adds to the `sandcell` command; `pyproject.toml` names them as entry points."""
