"""The commit kernel, the heart: pure algorithms over `persist`, in one colour of function.

Promises: history is linear per branch; an acknowledged commit is never lost nor applied twice; a
definite failure leaves nothing reachable; an unknown outcome is resolved or reported as unknown; a
half-done step is finished by the next caller. Time, randomness, threads and IO enter through
ports only.
"""
