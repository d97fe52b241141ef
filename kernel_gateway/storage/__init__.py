"""What is remembered: SQLAlchemy Core tables, their migrations and the queries on them.

SQLite by default, or PostgreSQL; what differs is in `engines`. A query is a function of a connection, run in one
transaction by `Database.run`. Times in the tables are microseconds since the epoch, here and above they are seconds.
"""
