"""The client by itself, in the environment of a user who has Jupyter."""
