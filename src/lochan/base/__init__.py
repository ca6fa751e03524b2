"""The ground floor: errors, typed ids, keys, limits, checks and the doors to the outside world.

Promises: no IO, no clock, no randomness. Everything above may import it; it imports nothing else
of ours.
"""
