"""Bytes to values and back, without IO.

Promises: one encoding per value (canonical), pinned by golden bytes; anything else is refused.
"""
