"""Measurements over HTTP: whatever speaks the Nessie REST API is measured in the same way.

`python -m benchmarks http --help` lists the measurements; `python -m benchmarks peers` compares
Lochan with the real Nessie.
"""
