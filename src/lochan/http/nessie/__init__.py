"""The Nessie REST API, versions 2 and 1, and what Lochan adds below version 2.

Handlers read a request with `wire/`, call one use case and write what it returned; which errors
become which codes stands in one table (`problems.py`), which paths lead to which handlers in the
operations of `wire/` and in `faces.py`.
"""
