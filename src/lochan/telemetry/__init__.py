"""What operators see: numbers for Prometheus, traces for OpenTelemetry.

Both are observers of requests, store calls and sleeps. No other package depends on them; without
the setting they do not exist, cost nothing, and their libraries are not loaded.
"""
