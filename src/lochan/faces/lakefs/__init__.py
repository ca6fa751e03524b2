"""The lakeFS API, below `/api/v1` of the port for files: what its clients use, in its words.

Repositories, branches, tags and commits are those of every other face. Objects are the files of a
repository; tables are in the same commits and are not shown. Handlers read a request, call use
cases of `service/` and write what they returned.
"""
