"""Shipped with the package, for tests of stores, of the kernel and of clients, ours and others'.

Contract suites, deterministic ports, models, strategies and the simulator. Only tests and
benchmarks import from here.
"""
