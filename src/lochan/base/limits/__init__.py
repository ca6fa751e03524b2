"""A limit on everything, each with its reason, in a module for each topic.

Units and bounds come last in the names. A number that is not here is not a limit.
"""
