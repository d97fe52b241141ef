"""The tools in frameworks, each with the example of the docs, run by a model that follows a script."""
