"""Iceberg metadata as plain dictionaries: requirements checked and updates applied, no IO."""
