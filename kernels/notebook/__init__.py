"""Notebooks as bytes and values: executions to cells, the chain of a record, files of any origin. Pure."""
