"""One package per database, each an implementation of `kv.Store`.

These packages use files, drivers and threads. A store is found by the scheme of its URL through the
entry point group `lochan.stores`; no other package imports one by name.
"""
