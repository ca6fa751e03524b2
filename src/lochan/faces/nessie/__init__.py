"""The Nessie REST API, versions 2 and 1, and what Lochan adds below version 2.

Handlers read a request with `wire/`, call one use case and write what it returned. One table maps
errors to codes (`responses.py`), one maps operations of `wire/` to handlers (`face.py`). What both
versions do alike is in `handlers.py`; the caller of a use case is built in `params.py`.
"""
