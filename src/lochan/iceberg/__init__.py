"""A pyiceberg catalog on Lochan: tables and views by reference, several in one commit."""
