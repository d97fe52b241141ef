"""The client by itself, in the environment of somebody who has Jupyter."""
