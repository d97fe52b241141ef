"""Sandboxes that are started before a session asks for one: who gets them, how many there are, their upkeep."""
