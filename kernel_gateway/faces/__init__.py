"""The protocols that the service speaks; a face translates and decides nothing.

What they share is here: `connections` bounds what comes in, `receiving` takes requests and their bodies, `routing`
finds the row of a table for an address, `scopes` says what a credential must be good for, `calls` are what endpoints of
some faces get, `handler` sends what endpoints answer with (`responses`) and has each call recorded (`audit`).
"""
