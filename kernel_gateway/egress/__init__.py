"""The way out of sandboxes: what may be reached, and the proxies that go there. No faces, services, SQL or tornado."""
