"""Side wing: one folder per database, each an implementation of `kv.Store`.

Here the world is touched: files, drivers, threads. A store is found by its URL scheme through the
entry point group `lochan.stores`; nothing in the house imports one by name.
"""
