"""Files in the same history as tables, below `/files/v1`: bytes as streams, the rest as JSON.

Handlers read a request strictly, call one use case of `service/` and write what it returned. They
touch no file system: a path is a key of the repository and nothing else.
"""
