"""Writing frames into tables by branch."""
