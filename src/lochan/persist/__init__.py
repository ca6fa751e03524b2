"""Objects by hash and, later, reference rows by compare-and-swap, on the narrow waist."""
