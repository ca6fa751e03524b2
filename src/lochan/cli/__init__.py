"""The command line: parses arguments, calls the catalog, prints results; it decides nothing itself.

A command never shows a traceback for a LochanError: it prints a message and a hint, and its exit
code is documented for scripts (`exit_codes.py`).
"""
