"""Requests to addresses that an operator has named: which are allowed, and bounded HTTP."""
