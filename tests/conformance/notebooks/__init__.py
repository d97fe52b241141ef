"""Conformance tests: the notebooks that sessions write, in the tools that people open notebooks with."""
