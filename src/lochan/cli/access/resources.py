"""What an action is done to, as text.

    main                       a branch or tag of the repository that --repository names
    main:sales.orders          a key on it; elements with dots are quoted: main:sales."v1.orders"
    main:/raw/2026/a.parquet   a file on it, by its path
    lake//main:sales.orders    the same in the repository `lake`
    lake//                     the repository `lake` as a whole

Names of repositories and references contain no `//` and no `:`, so each text has one meaning.
"""

from __future__ import annotations

import msgspec

from lochan.base.errors import Invalid
from lochan.cli.keys import parse_key
from lochan.model.commits import ContentKey


class NamedResource(msgspec.Struct, frozen=True):
    """A repository, and what is named in it; a file's path has no slash at its beginning."""

    repository: str
    reference: str | None = None
    key: ContentKey | None = None
    path: str | None = None


def parse_resource(text: str, repository: str) -> NamedResource:
    """Returns what a text names; `repository` is meant where it names none."""
    place, colon, rest = text.partition(":")
    named, slashes, reference = place.partition("//")
    if slashes:
        repository = named
    else:
        reference = place
    if not repository:
        raise Invalid(f"not a resource: {text!r}; the name of the repository is empty")
    if not colon:
        return NamedResource(repository, reference or None)
    if not reference:
        raise Invalid(f"not a resource: {text!r}; name the branch or tag before the colon")
    if rest.startswith("/"):
        return NamedResource(repository, reference, path=rest[1:])
    return NamedResource(repository, reference, parse_key(rest))
