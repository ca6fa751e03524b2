"""One package per kind of place for object data, each an implementation of `staging.BlockStore`.

These packages use files, drivers and threads. A place is found by the scheme of its URL through the
entry point group `lochan.blocks`; no other package imports one by name.
"""
