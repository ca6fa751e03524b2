"""How a commit was made, in its hidden headers: the ref-log is rebuilt from them."""

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
    """How a commit was made; an empty field was not recorded.

    `source` is what a user named, a branch or a hash; `base` is in hex.
    """

    kind: str = COMMIT_KIND
    source: str = ""
    base: str = ""
    who: str = ""
    operation: str = ""

    def headers(self) -> Headers:
        """Returns the hidden headers, in order."""
        if self.kind == COMMIT_KIND and not (self.source or self.base or self.who):
            # The case of nearly every commit; the kind `commit` is not stored.
            return ((OPERATION_HEADER, (self.operation,)),) if self.operation else ()
        headers = {
            KIND_HEADER: self.kind,
            SOURCE_HEADER: self.source,
            BASE_HEADER: self.base,
            WHO_HEADER: self.who,
            OPERATION_HEADER: self.operation,
        }
        return tuple(sorted((name, (value,)) for name, value in headers.items() if value))


def read_provenance(hidden: Headers) -> Provenance:
    """Reads hidden headers; others than ours are left aside."""
    headers = {name: values[0] for name, values in hidden if values}
    return Provenance(
        headers.get(KIND_HEADER, COMMIT_KIND),
        headers.get(SOURCE_HEADER, ""),
        headers.get(BASE_HEADER, ""),
        headers.get(WHO_HEADER, ""),
        headers.get(OPERATION_HEADER, ""),
    )
