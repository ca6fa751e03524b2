"""Files that are staged and committed by the hundred thousand, and what others notice of it."""
