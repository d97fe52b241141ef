"""A live directory and its prefix of a store made equal: restore, flush, what has to move."""
