"""Measurements: `python -m benchmarks` prints one JSON line for each number.

Times are CPU time of the calling thread, best of several runs, because the machines that run this
are shared; counts and bytes are exact. Nothing here is a test: tests hold counts, never times.
"""
