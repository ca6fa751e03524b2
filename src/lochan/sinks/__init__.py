"""Subscribers that ship with Lochan: events to the log, and to a file of JSON lines."""
