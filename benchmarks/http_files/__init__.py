"""Measurements of files over HTTP, in the rows in which lakeFS was measured.

`python -m benchmarks files-http --help` lists the rows. What is sent is built in `api.py`, apart
from how it is driven, so that another API over the same files is measured by the same rows.
"""
