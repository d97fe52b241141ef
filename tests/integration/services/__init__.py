"""The services on a real database, a real store and real sandboxes."""
