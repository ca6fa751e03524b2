"""The lowest layer: errors, typed ids, keys, limits, checks, and protocols for clock and waiting.

Promises: no IO, no clock, no randomness. Everything above may import it; it imports nothing else
of ours.
"""
