"""What operators see: numbers for Prometheus, traces for OpenTelemetry.

Both are decorators around doors that exist anyway (requests, store calls, sleeps). Nothing knows
them; when they are not asked for, they are not there and cost nothing. Their libraries are loaded
only when a setting asks for them.
"""
