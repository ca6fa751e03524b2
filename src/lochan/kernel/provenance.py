"""What a commit says of its own making, in hidden headers: the ref-log is rebuilt from them."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.codec.commits import Headers

KIND_HEADER: Final = "kind"
SOURCE_HEADER: Final = "source"
BASE_HEADER: Final = "base"
WHO_HEADER: Final = "initiator"
OPERATION_HEADER: Final = "operation"

COMMIT_KIND: Final = "commit"


class Provenance(msgspec.Struct, frozen=True):
    """How a commit came to be; what is empty was not said.

    `source` is what a user named, a branch or a hash; `base` is in hex.
    """

    kind: str = COMMIT_KIND
    source: str = ""
    base: str = ""
    who: str = ""
    operation: str = ""

    def headers(self) -> Headers:
        """Returns the hidden headers that say so, in order."""
        if self.kind == COMMIT_KIND and not (self.source or self.base or self.who):
            # What nearly every commit says; its kind goes without saying.
            return ((OPERATION_HEADER, (self.operation,)),) if self.operation else ()
        said = {
            KIND_HEADER: self.kind,
            SOURCE_HEADER: self.source,
            BASE_HEADER: self.base,
            WHO_HEADER: self.who,
            OPERATION_HEADER: self.operation,
        }
        return tuple(sorted((name, (value,)) for name, value in said.items() if value))


def read_provenance(hidden: Headers) -> Provenance:
    """Reads hidden headers; others than ours are left aside."""
    said = {name: values[0] for name, values in hidden if values}
    return Provenance(
        said.get(KIND_HEADER, COMMIT_KIND),
        said.get(SOURCE_HEADER, ""),
        said.get(BASE_HEADER, ""),
        said.get(WHO_HEADER, ""),
        said.get(OPERATION_HEADER, ""),
    )
