"""`lochan fs`, `lochan commit` and `lochan reset`: files of a repository."""
