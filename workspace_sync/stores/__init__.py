"""The object stores there are, and from a URL to one of them."""
