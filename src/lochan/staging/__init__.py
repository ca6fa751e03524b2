"""Files before their commit: staged on a branch, read through it, committed, reset, swept."""
