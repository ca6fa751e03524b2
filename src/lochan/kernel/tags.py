"""Tags: a light tag points at a commit, an annotated one at a tag object.

A tag object contains its target, a message, properties and perhaps a signature; it is stored by its
hash before a name points at it. To read a reference, what it points at is *peeled*: tag objects are
followed until a commit is found. Tags take no commits; the publisher refuses them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Corrupt, Invalid, NotFound, ReferenceNotFound, TooLarge
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import HEADERS_BYTES_MAX, MESSAGE_BYTES_MAX, TAG_DEPTH_MAX
from lochan.codec.commits import (
    TagObject,
    decode_commit,
    decode_tag,
    encode_tag,
    is_commit,
    is_tag,
)
from lochan.codec.elements import encode_text
from lochan.codec.objects import check_object_id
from lochan.kernel.context import RepositoryContext
from lochan.kernel.views import EMPTY_VIEW, CommitView, view_of
from lochan.model.references import Annotation

TAG: Final = "TAG"
BRANCH: Final = "BRANCH"


class Peeled(msgspec.Struct, frozen=True):
    """What a pointer leads to: a commit, and the tags on the way, outermost first."""

    commit: CommitView
    tags: tuple[TagObject, ...] = ()


class Tags:
    """Stores and reads the tag objects of one repository."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context

    def annotate(self, target: ObjId, annotation: Annotation) -> ObjId:
        """Stores a tag object, which a name may point at from then on; returns its id."""
        peeled = self.peel_named(target)
        if len(peeled.tags) >= TAG_DEPTH_MAX:
            raise Invalid(f"a tag is at most {TAG_DEPTH_MAX} tags away from its commit")
        _check(annotation)
        tag = TagObject(1, target, annotation.message, annotation.properties, annotation.signature)
        pointer, raw = encode_tag(tag)
        # A name will point at it; after a lost reply it is stored again.
        self._context.repeat(lambda: self._context.objects.store_many([(pointer, raw)]))
        return pointer

    def peel(self, pointer: ObjId) -> Peeled:
        """Follows what a reference points at; Corrupt if it leads nowhere."""
        try:
            return self.peel_named(pointer)
        except NotFound as error:
            raise Corrupt(
                f"a reference points at no object: {error.message}", pointer, missing=True
            ) from None

    def peel_named(self, pointer: ObjId) -> Peeled:
        """Follows an id that a user named; NotFound if there is no such commit or tag."""
        tags: list[TagObject] = []
        at = pointer
        while len(tags) <= TAG_DEPTH_MAX:
            view = self._find_view(at)
            if isinstance(view, CommitView):
                return Peeled(view, tuple(tags))
            tags.append(view)
            at = ObjId(view.target)
        raise Corrupt(f"more than {TAG_DEPTH_MAX} tags point at each other")

    def _find_view(self, obj_id: ObjId) -> CommitView | TagObject:
        context = self._context
        if obj_id == EMPTY_ID:
            return EMPTY_VIEW
        known = context.views.find_cached(obj_id)
        if known is not None:
            return known
        raw = context.objects.find(obj_id)
        if raw is not None and is_commit(raw):
            view = view_of(obj_id, decode_commit(obj_id, raw))
            context.views.remember(view)
            return view
        if raw is not None and is_tag(raw):
            check_object_id(obj_id, raw)
            return decode_tag(raw)
        if raw is not None:
            # An object of another kind; or one whose first bytes were changed, which is there.
            check_object_id(obj_id, raw)
        raise ReferenceNotFound(f"Commit '{obj_id.hex()}' not found")


def _check(annotation: Annotation) -> None:
    """Refuses an annotation that is too large or no valid text, before anything is written."""
    message_bytes = len(encode_text(annotation.message))
    headers_bytes = sum(
        len(encode_text("".join((name, *values)))) for name, values in annotation.properties
    )
    if message_bytes > MESSAGE_BYTES_MAX:
        raise TooLarge(f"a message has at most {MESSAGE_BYTES_MAX} bytes")
    if headers_bytes + len(annotation.signature) > HEADERS_BYTES_MAX:
        raise TooLarge(f"headers and signature have at most {HEADERS_BYTES_MAX} bytes")
