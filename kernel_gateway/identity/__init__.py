"""Who is calling: principals, bearer tokens, and how a token becomes a principal."""
