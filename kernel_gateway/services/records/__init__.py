"""The record of a session: executions as cells of a notebook, written once and kept next to the workspace."""
