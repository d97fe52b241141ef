"""Who may do what, and what is remembered. Knows no HTTP: takes a `Principal`, returns models, raises our errors."""
