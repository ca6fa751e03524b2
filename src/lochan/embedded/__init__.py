"""The library without a server: a repository of a store that is opened in this process.

    with open_repository("rocksdb:.lochan/store") as repository:
        repository.commits.commit("main", "first", [Put(key=("orders",), content=table)])

The same groups of methods as `client.Client` has, with the same arguments, results and errors. For
any number of threads; a write returns when it is durable.
"""

from lochan.embedded.repository import Embedded, check_store, open_repository

__all__ = ["Embedded", "check_store", "open_repository"]
