"""Whole stores: what they contain, how one is copied to another, how a repository is erased.

Works on rows and partitions, below the meaning of most of them; only what makes a row whole, its
checksum or its hash, is looked at.
"""
