"""Filters and rules as CEL texts: parsed, bounded before they run, evaluated.

`service/` filters listings with them, `access/` decides by them; `events/` will use them too. Knows
`model/` and `base/` only.
"""
