"""The handlers of imports: objects of an object store become objects of a commit, without a copy.

An import is one commit, made before `importStart` answers. Its id is a record of the outcome under
a keyed hash of the repository, so that `importStatus` needs no state of a server: every server of
the store answers it, also after a restart.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

import msgspec

from lochan.base.errors import Conflict, Invalid, NotFound
from lochan.faces.calls import read_call, write_call
from lochan.faces.lakefs.answers import answer
from lochan.faces.lakefs.commits import commit_meta, logged
from lochan.faces.lakefs.params import branch_of, path_of
from lochan.faces.lakefs.references import find_branch
from lochan.faces.params import Handlers
from lochan.model.files import Imported, ImportSource
from lochan.model.specs import ReferenceSpec
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import IdJson, ImportStatusJson, LakefsImportIn

_read_import: Final = Reader(LakefsImportIn)
_encode: Final = msgspec.msgpack.Encoder().encode

_MAC_BYTES: Final = 16
_ID_CHARACTERS_MAX: Final = 1_000


class _Done(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the id of an import states."""

    branch: str
    hash: str
    objects: int
    time_us: int


_decode: Final = msgspec.msgpack.Decoder(_Done).decode


def start(exchange: Exchange) -> PendingWrite[Response]:
    """Imports, and returns the id by which the outcome can be read."""
    body: LakefsImportIn = _read_import(exchange.request.body)
    branch = branch_of(exchange)
    sources = []
    for one in body.paths:
        if one.type != "common_prefix":
            raise Invalid(f"import of type {one.type[:40]!r}: only prefixes: invalid value")
        sources.append(ImportSource(one.path, one.destination))
    time_us = exchange.repository.context.clock.now_us()
    pending = exchange.repository.imports.import_files(
        write_call(exchange), branch, tuple(sources), commit_meta(body.commit)
    )

    def started(done: Imported) -> Response:
        record = _Done(done.branch, done.hash, done.objects, time_us)
        return answer(IdJson(_seal(exchange, record)), 202)

    return pending.then(started)


def status(exchange: Exchange) -> Response:
    """Returns the outcome of an import."""
    done = _open(exchange)
    spec = ReferenceSpec(done.branch, done.hash)
    commit = logged(exchange.repository.commit_log.get(read_call(exchange), spec))
    moment = datetime.fromtimestamp(done.time_us / 1_000_000, UTC).isoformat()
    return answer(ImportStatusJson(True, moment, done.objects, commit.meta_range_id, commit))


def cancel(exchange: Exchange) -> Response:
    """Refuses: an import that has an id is complete."""
    _open(exchange)
    raise Conflict("import already completed")


def _seal(exchange: Exchange, record: _Done) -> str:
    raw = _encode(record)
    return urlsafe_b64encode(_mac(exchange, raw) + raw).decode().rstrip("=")


def _open(exchange: Exchange) -> _Done:
    find_branch(exchange)
    text = path_of(exchange, "id")
    try:
        if len(text) > _ID_CHARACTERS_MAX:
            raise ValueError
        whole = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        raw = whole[_MAC_BYTES:]
        if not compare_digest(_mac(exchange, raw), whole[:_MAC_BYTES]):
            raise ValueError
        done = _decode(raw)
        if done.branch != branch_of(exchange):
            raise ValueError
    except (ValueError, msgspec.DecodeError):
        raise NotFound("import: not found") from None
    return done


def _mac(exchange: Exchange, raw: bytes) -> bytes:
    secret = exchange.repository.info.token_key
    return blake2b(raw, digest_size=_MAC_BYTES, key=secret, person=b"import").digest()


HANDLERS: Final[Handlers] = {
    "lakefs.importStart": (start, False),
    "lakefs.importStatus": (status, True),
    "lakefs.importCancel": (cancel, True),
}
"""The operations of this module: their handlers, and whether they are brief."""
