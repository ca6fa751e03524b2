"""The API of access, below `/access/v1`: users, groups, policies, tokens, access keys.

Handlers read a request strictly (`wire/strict.py`), call one use case of `service/access.py` and
write what it returned. What decides is the use case; the table of operations only declares it.
"""
