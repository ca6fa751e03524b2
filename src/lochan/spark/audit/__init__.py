"""Write, audit, publish: checks, verdicts, publishing, and the report of it."""
