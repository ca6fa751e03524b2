"""The command line: parses, calls, prints; decides nothing itself.

A command never shows a traceback for an error of our own tree: it prints one sentence and leaves
with a code that scripts can trust (0 done, 1 failed, 2 called wrongly).
"""
