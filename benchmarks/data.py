"""The keys and elements that are measured: tables in 200 namespaces, names like UUIDs."""

from __future__ import annotations

from random import Random

from lochan.base.ids import ObjId
from lochan.base.keys import file_key, table_key
from lochan.codec.elements import encode_file, pack_table
from lochan.model.entries import FileEntry

_WORDS = ("sales", "inventory", "customers", "europe", "daily", "raw", "curated", "marketing")


class Tables:
    """Keys of 52 to 149 bytes, 92 on average, and their elements."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._namespaces = [self._namespace(number) for number in range(200)]

    def key(self) -> bytes:
        pick = self._random
        name = f"{pick.randbytes(4).hex()}-{pick.randbytes(2).hex()}-{pick.randbytes(10).hex()}"
        return table_key([*pick.choice(self._namespaces), f"table_{name}"])

    def element(self) -> bytes:
        content = self._random.randbytes(16)
        return pack_table(1, ObjId(self._random.randbytes(32)), content)

    def sorted_keys(self, count: int) -> list[bytes]:
        keys: set[bytes] = set()
        while len(keys) < count:
            keys.add(self.key())
        # Copied in order: a stream read from disk or network lies in memory as it comes.
        return [bytes(bytearray(key)) for key in sorted(keys)]

    def sorted_items(self, count: int) -> list[tuple[bytes, bytes]]:
        return [(key, self.element()) for key in self.sorted_keys(count)]

    def _namespace(self, number: int) -> list[str]:
        pick = self._random
        parts = [f"{pick.choice(_WORDS)}_{pick.randbytes(pick.randrange(2, 8)).hex()}"]
        parts += [f"{pick.choice(_WORDS)}_{number}" for _ in range(pick.randrange(3))]
        return parts


class Files:
    """Paths of partitioned data files and entries of about 120 bytes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def sorted_items(self, count: int) -> list[tuple[bytes, bytes]]:
        pick = self._random
        items = {}
        for number in range(count):
            day = f"day={pick.randrange(365):03}"
            key = file_key(
                f"warehouse/facts/{day}/part-{number:08}-{pick.randbytes(6).hex()}.parquet"
            )
            items[bytes(key)] = encode_file(
                FileEntry(
                    f"objects/{pick.randbytes(16).hex()}",
                    pick.randrange(1 << 30),
                    1_700_000_000_000_000 + number,
                    etag=pick.randbytes(16).hex(),
                )
            )
        return sorted(items.items())
