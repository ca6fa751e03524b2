"""The steps of `lochan demo` on files: a commit that has a table and its files, as one.

They run on the demo's server after the steps of `demo_catalog`.
"""

from __future__ import annotations

from lochan.base.errors import Bug, PathNotFound
from lochan.cli.keys import key_text
from lochan.cli.output import DemoOutput, short
from lochan.client import Client
from lochan.model.commits import CommitMeta, ContentKey, Put
from lochan.model.contents import IcebergTable
from lochan.model.files import FileInfo

PHOTOS: ContentKey = ("sales", "photos")
PATHS = ("photos/2026/lake.jpg", "photos/2026/loch.jpg", "photos/README.md")


class FilesDemo:
    """A table of photos, and the photos: committed, merged and reverted as one."""

    def __init__(self, url: str, output: DemoOutput) -> None:
        self._output = output
        self._client = Client(url)

    def run(self) -> None:
        """Runs all steps."""
        with self._client:
            self._stage()
            committed = self._commit()
            self._merge()
            self._revert(committed)

    def _stage(self) -> None:
        self._output.heading("9. Files are staged on a branch; main does not see them")
        self._client.references.create("photos")
        for path in PATHS:
            body = f"the bytes of {path}\n".encode() * 1_000
            kind = "text/markdown" if path.endswith(".md") else "image/jpeg"
            info = self._client.files.put("photos", path, body, content_type=kind)
            self._output.line(f"{path:<24} {info.size:>8,} bytes, sha256 {short(info.sha256)}")
        staged = list(self._client.files.iterate_uncommitted("photos"))
        self._output.line(f"staged on photos: {len(staged)} files; on main: {self._count('main')}")

    def _commit(self) -> str:
        self._output.heading("10. One commit has the table and its files")
        table = IcebergTable(
            metadata_location="s3://photos/v1",
            snapshot_id=1,
            schema_id=0,
            spec_id=0,
            sort_order_id=0,
        )
        meta = CommitMeta(message="Photos and their table", authors=("Ada",))
        done = self._client.files.commit("photos", meta, [Put(key=PHOTOS, content=table)])
        self._output.line(f"photos is at {short(done.hash)}: {key_text(PHOTOS)} and 3 files")
        return done.hash

    def _merge(self) -> None:
        self._output.heading("11. One merge brings both to main")
        merged = self._client.merges.merge("main", "photos", "Merge the photos")
        self._output.line(f"main is at {short(merged.hash)}; files on main: {self._count('main')}")
        changes = list(self._client.files.iterate_diff("main~1", "main", "photos/"))
        self._output.table(("path", "change"), ((each.path, _kind(each)) for each in changes))
        head = self._client.files.read("main", PATHS[2], end=26)
        self._output.line(f"the first bytes of {PATHS[2]}: {head.decode()!r}")

    def _revert(self, committed: str) -> None:
        self._output.heading("12. One revert undoes both")
        head = self._client.references.get("main").hash
        reverted = self._client.merges.revert("main", [head], "Revert the photos")
        self._output.line(f"main is at {short(reverted.hash)}; files: {self._count('main')}")
        try:
            self._client.files.stat("main", PATHS[0])
        except PathNotFound as error:
            self._output.line(f"refused: {error.message}")
        else:
            raise Bug("a reverted file is still there")
        kept = self._client.files.stat(committed, PATHS[0])
        self._output.line(f"at {short(committed)} there is still {kept.path}")

    def _count(self, branch: str) -> int:
        found = self._client.files.iterate(branch, "photos/")
        return sum(isinstance(each, FileInfo) for each in found)


def _kind(change: object) -> str:
    return str(getattr(change, "kind", ""))
