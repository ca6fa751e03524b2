"""The content generator: fills a catalog with commits, for trials and load tests.

A run follows from its options and its seed alone, whatever the number of workers.
"""
