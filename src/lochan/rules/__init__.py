"""Filters and rules as CEL texts: parsed, bounded before they run, evaluated.

`service/` filters listings with them; `access/` and `events/` will use them too. Knows `model/`
and `base/` only.
"""
