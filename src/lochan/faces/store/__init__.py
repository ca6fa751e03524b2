"""The API of a whole store, below `/store/v1`: counts, rows, the erasure of a repository."""
