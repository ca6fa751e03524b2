"""The methods of a repository, written once for every way to reach it, one module a subject."""
