"""Measurements over HTTP: whatever speaks the Nessie REST API is measured in the same way.

`python -m benchmarks http --help` is the door; `python -m benchmarks peers` puts Lochan and the
real Nessie side by side.
"""
