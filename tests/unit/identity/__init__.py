"""Who is calling: signatures, and secrets at rest."""
