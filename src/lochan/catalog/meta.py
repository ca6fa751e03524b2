"""The metadata of a commit (authors, times, properties) as headers of the stored commit.

An author is what a client claims. With authentication, the committer is who sent the request.
Properties have a prefix, so that no client can set a header of ours; hidden headers are made
elsewhere, from what authentication found out (`kernel/provenance.py`).
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.base.times import check_time
from lochan.codec.commits import Headers
from lochan.kernel.views import CommitView
from lochan.model.commits import CommitMeta, Properties

_AUTHOR: Final = "author"
_SIGNED: Final = "signed-off-by"
_COMMITTER: Final = "committer"
_AUTHOR_TIME: Final = "author-time-us"
_COMMIT_TIME: Final = "commit-time-us"
# Users choose the names of properties; ours must stay apart.
_PROPERTY: Final = "property."


def headers_of(meta: CommitMeta, who: str) -> Headers:
    """Returns the headers of metadata, sorted by name."""
    headers: list[tuple[str, tuple[str, ...]]] = []
    if any(meta.authors):
        headers.append((_AUTHOR, meta.authors))
    if meta.author_time_us is not None:
        headers.append((_AUTHOR_TIME, (str(check_time("authorTime", meta.author_time_us)),)))
    if meta.commit_time_us is not None:
        headers.append((_COMMIT_TIME, (str(check_time("commitTime", meta.commit_time_us)),)))
    committer = who or meta.committer
    if committer:
        headers.append((_COMMITTER, (committer,)))
    for name, values in meta.properties:
        headers.append((_PROPERTY + name, values))
    if any(meta.signed_off_by):
        headers.append((_SIGNED, meta.signed_off_by))
    if len(headers) > 1:
        headers.sort()
        if len({name for name, _ in headers}) != len(headers):
            raise Invalid("a property of a commit is named once")
    return tuple(headers)


def recommitted(headers: Headers, who: str, added: Properties = ()) -> Headers:
    """Returns the headers of a commit that a caller makes again; its author stays the author.

    Without authentication they stay as they are, but for the properties that are added.
    """
    found = {**dict(headers), **{_PROPERTY + name: values for name, values in added}}
    before = found.get(_COMMITTER, ())
    if not who or before == (who,):
        return tuple(sorted(found.items())) if added else headers
    if before and _AUTHOR not in found:
        # Without an author, the committer is shown as the author.
        found[_AUTHOR] = before
    return tuple(sorted({**found, _COMMITTER: (who,)}.items()))


def meta_of(view: CommitView) -> CommitMeta:
    """Returns the metadata of a stored commit."""
    body = view.body
    if body is None:
        return CommitMeta(message="", hash=view.obj_id.hex())
    headers = dict(body.headers)
    committer = headers.get(_COMMITTER, ("",))[0]
    commit_time_us = body.created_us
    if _COMMIT_TIME in headers:
        commit_time_us = int(headers[_COMMIT_TIME][0])
    author_time_us = int(headers[_AUTHOR_TIME][0]) if _AUTHOR_TIME in headers else commit_time_us
    cut = len(_PROPERTY)
    return CommitMeta(
        message=body.message,
        authors=headers.get(_AUTHOR, (committer,)),
        signed_off_by=headers.get(_SIGNED, ()),
        author_time_us=author_time_us,
        properties=tuple(
            [(name[cut:], values) for name, values in body.headers if name.startswith(_PROPERTY)]
        ),
        committer=committer,
        commit_time_us=commit_time_us,
        hash=view.obj_id.hex(),
        parents=tuple([parent.hex() for parent in body.parents]),
    )
