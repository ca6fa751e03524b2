"""Lochan: Git for the lakehouse, one versioned repository for tables and files.

This is the front hall: it names the version and nothing else, so that importing any one room
never loads another.
"""

__version__ = "0.1.0"
