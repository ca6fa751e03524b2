"""What a user names: entries of the two universes; later references, commits and operations.

Plain frozen values without behaviour that needs a store.
"""
