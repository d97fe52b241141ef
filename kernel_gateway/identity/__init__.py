"""Who is calling: principals, bearer tokens, access keys and signatures, and how each becomes a principal."""
