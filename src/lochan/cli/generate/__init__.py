"""The content generator: fills a catalog with commits, to try it out and to load it.

What a run does follows from its options and its seed alone, whatever the number of workers.
"""
