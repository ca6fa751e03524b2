"""Measurements of the data pipeline on Spark."""
