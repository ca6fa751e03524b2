"""The file system `lochan://repository@reference/path` for fsspec; an extra.

pandas, pyarrow, DuckDB and everything else that takes fsspec reads and writes files of a repository
by it. fsspec finds it by an entry point of the group `fsspec.specs`. It stands on `client/` alone.
"""

from lochan.filesystem.file_system import LochanFileSystem

__all__ = ["LochanFileSystem"]
