"""The narrow waist: one small protocol on which everything durable stands, and its wrappers.

Nothing above may need more of a database than `kv.store.Store` promises.
"""
