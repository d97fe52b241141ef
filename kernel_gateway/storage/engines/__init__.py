"""What differs between databases: how SQLite and PostgreSQL are connected to, and how each carries out transactions."""
