"""Reading tables as they are on a reference."""
