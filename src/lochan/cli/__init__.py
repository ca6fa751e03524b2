"""The command line: parses, calls, prints; decides nothing itself.

A command never shows a traceback for an error of our own tree: it prints one sentence and a hint,
and leaves with a code that scripts can trust (`exits.py`).
"""
