"""Shipped with the package: what proves a store, a kernel or a client right, wherever it lives.

Contract suites, deterministic ports, and later models, strategies and the simulator. Nothing
outside of tests and benchmarks imports from here.
"""
