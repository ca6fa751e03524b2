"""The S3 gateway: repositories as buckets, `REF/PATH` as keys, for every program that knows S3.

Handlers read a request strictly, call one use case of `service/` and write what it returned. What
S3 has and this server does not is refused by name (`NotImplemented`), never answered in part.
"""
