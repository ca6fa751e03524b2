"""Objects by hash, rows by compare-and-swap, and the caches of a server, on a `kv.Store`."""
