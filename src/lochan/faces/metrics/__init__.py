"""Metrics for Prometheus at `/metrics`: a page of text that needs a right of its own."""
