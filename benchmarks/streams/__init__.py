"""Streamed bodies and events under load, on a server that also serves Nessie's interface."""
