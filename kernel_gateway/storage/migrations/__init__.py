"""Alembic's scripts, one module a revision in `versions/`, shipped in the package and run at start.

A revision is written by hand, never edited once released, and makes its tables from literals rather than from
`tables.py`, which goes on changing.
"""
