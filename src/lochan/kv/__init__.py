"""The narrow waist: the one small protocol by which everything durable is stored.

Nothing above may need more of a database than `kv.store.Store` promises.
"""
