"""Conformance tests: real Jupyter clients attached to live sessions."""
