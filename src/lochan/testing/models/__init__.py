"""Plain models with which the code must agree, simple enough to be checked by reading."""
