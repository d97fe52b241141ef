"""The escape corpus in pods of a real cluster under runc: what is refused there too, and what differs from a host."""
