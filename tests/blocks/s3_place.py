"""Opens places on the object store of the tests."""

from __future__ import annotations

from itertools import count

from lochan.assembly.blocks import open_blocks
from lochan.base.secrets import Secret
from lochan.staging.block_store import BlockStore
from tests.spark.object_store import SECRET, USER, ObjectStore

_NUMBERS = count()


def open_s3(
    port: int, prefix: str = "", *imports: str, more: str = "", bucket: str = "blocks"
) -> BlockStore:
    """Opens a prefix that no other test uses, through this port of the machine."""
    prefix = prefix or f"place/{next(_NUMBERS)}"
    return open_blocks(
        f"s3://{bucket}/{prefix}?endpoint=http://127.0.0.1:{port}{more}",
        imports=imports,
        access_key=USER,
        secret_key=Secret(SECRET),
    )


class ForeignBucket:
    """Objects that were there before."""

    def __init__(self, store: ObjectStore) -> None:
        self.files = store.filesystem()
        self.folder = f"lake/foreign-{next(_NUMBERS)}"
        self.prefix = f"s3://{self.folder}"

    def put(self, path: str, content: bytes) -> None:
        with self.files.open_output_stream(f"{self.folder}/{path}") as file:
            file.write(content)

    def remove(self, path: str) -> None:
        self.files.delete_file(f"{self.folder}/{path}")
