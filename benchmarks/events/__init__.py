"""Measures what events cost the requests that cause them: `python -m benchmarks events`."""
