"""A quiet caller beside a noisy one, on a server that knows its callers."""
