"""Describes a file of data: schema, rows, statistics, a sample. It runs inside a sandbox, never in the service.

The service packs its sources into one archive and gives that to the sandbox's Python (`packing`), which has PyArrow and
NumPy. The file is hostile and so may the answer be: who reads that believes none of it.
"""
