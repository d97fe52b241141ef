"""The resources of the REST face: the endpoints of each, and its rows of the table of routes."""
