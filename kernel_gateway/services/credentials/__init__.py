"""Credentials: bearer tokens and access keys are made, found, remembered and revoked here."""
