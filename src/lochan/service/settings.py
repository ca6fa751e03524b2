"""What a repository keeps for tools, by type.

These are rules of garbage collectors, protected branches, and names and values of users.

One row for all types, written by the protocol of `persist/rows.py`. It contains the operation ids
of its last writers, so that a writer whose reply was lost can find out whether it had written. The
row is created with the repository: a repository without it has lost its settings, which is not the
same as never having had any.

If the last writer had an idempotency key, the row also contains what that writer replaced, which is
the answer to its request; the next writer records it in the claim of that key before it writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Corrupt, Invalid, NotFound, TooLarge
from lochan.base.limits.requests import (
    SETTINGS_BYTES_MAX,
    SETTINGS_POLICIES_MAX,
    SETTINGS_WRITERS_MAX,
)
from lochan.codec.rows import SETTINGS_FORM, SettingsRow
from lochan.kernel.claims import claim_request, find_claim
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import SETTINGS_KEY
from lochan.kv.store import Kind, partition
from lochan.persist.claims import ClaimRows, claim_key
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write
from lochan.service.claims import Claims
from lochan.service.policy import Access

Settings = dict[str, Any]
"""The settings of one type as users send and see them, with their `type`."""

_OPERATION_BYTES: Final = 16

_DURATION: Final = re.compile(
    r"[-+]?P(?=[-+\dT])(?:[-+]?\d{1,18}D)?"
    r"(?:T(?=[-+\d])(?:[-+]?\d{1,18}H)?(?:[-+]?\d{1,18}M)?(?:[-+]?\d{1,18}(?:[.,]\d{0,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_INSTANT: Final = re.compile(
    r"[1-9]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[-+][01]\d:[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)
_COUNT: Final = re.compile(r"[1-9]\d{0,10}", re.ASCII)
_POLICIES: Final = "it is a number of commits, a duration like P30D, an instant, or NONE"


class _ReferencePolicy(msgspec.Struct, frozen=True, rename="camel"):
    """How long what one kind of references holds stays alive."""

    reference_name_pattern: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    policy: str


class _GarbageCollector(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    omit_defaults=True,
    tag="GARBAGE_COLLECTOR",
    tag_field="type",
    kw_only=True,
):
    """The rules of the garbage collector; what is not set is left out."""

    default_cutoff_policy: str | None = None
    per_ref_cutoff_policies: tuple[_ReferencePolicy, ...] = ()
    new_files_grace_period: str | None = None
    expected_file_count_per_content: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None

    def check(self) -> None:
        """Refuses policies and durations that are not valid."""
        if self.default_cutoff_policy is not None:
            _check_policy(self.default_cutoff_policy)
        if len(self.per_ref_cutoff_policies) > SETTINGS_POLICIES_MAX:
            raise TooLarge(f"there are at most {SETTINGS_POLICIES_MAX} policies by reference")
        for one in self.per_ref_cutoff_policies:
            _check_policy(one.policy)
        period = self.new_files_grace_period
        if period is not None and not _DURATION.fullmatch(period):
            raise Invalid(f"newFilesGracePeriod is a duration like PT3H, not {period[:80]!r}")


BRANCH_PROTECTION: Final = "BRANCH_PROTECTION"
RETENTION: Final = "RETENTION"
METADATA: Final = "METADATA"

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
_Days = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _BranchProtection(msgspec.Struct, frozen=True, tag=BRANCH_PROTECTION, tag_field="type"):
    """Patterns of the names of protected branches."""

    patterns: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=SETTINGS_POLICIES_MAX)]

    def check(self) -> None:
        """Accepts all of them."""


class _BranchRetention(msgspec.Struct, frozen=True):
    branch: _Text
    days: _Days


class _Retention(msgspec.Struct, frozen=True, tag=RETENTION, tag_field="type", rename="camel"):
    """How many days what was removed is kept, as lakeFS clients state it."""

    default_days: _Days
    branches: Annotated[
        tuple[_BranchRetention, ...], msgspec.Meta(max_length=SETTINGS_POLICIES_MAX)
    ] = ()

    def check(self) -> None:
        """Accepts all of them."""


class _Metadata(msgspec.Struct, frozen=True, tag=METADATA, tag_field="type"):
    """Names and values of a repository."""

    values: dict[_Text, Annotated[str, msgspec.Meta(max_length=10_000)]]

    def check(self) -> None:
        """Accepts all of them."""


_Rules = _GarbageCollector | _BranchProtection | _Retention | _Metadata

_TYPES: Final[dict[str, type[_Rules]]] = {
    "GARBAGE_COLLECTOR": _GarbageCollector,
    BRANCH_PROTECTION: _BranchProtection,
    RETENTION: _Retention,
    METADATA: _Metadata,
}

# A type that Nessie knows by name and that nothing is ever kept under.
_UNKNOWN: Final = "UNKNOWN"


class _Writer(msgspec.Struct, frozen=True):
    """The writer of settings: an operation id, and the key of its claim if it has one."""

    operation: bytes
    claim: bytes = b""


_Done = Done[bytes]
"""What a write has replaced; empty if that type was never set before."""

# An outcome that is recorded is not empty, though nothing was set before.
_ANSWERED: Final = b"\1"

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Settings).decode


class RepositorySettings:
    """The settings of one repository."""

    def __init__(self, context: RepositoryContext, claims: Claims, access: Access) -> None:
        self._context = context
        self._claims = claims
        self._claim_rows = ClaimRows(context.store, context.instance)
        self._access = access
        place = partition(context.instance, Kind.META)
        self._rows = RowTable(context.store, place, SETTINGS_FORM, lambda _: SETTINGS_KEY)

    def get(self, call: Call, types: Sequence[str]) -> list[Settings]:
        """Returns the settings of these types, of those that were ever set."""
        self._access.decide(call, Action.READ_SETTINGS)
        wanted = list(dict.fromkeys(types))
        for name in wanted:
            if name not in _TYPES and name != _UNKNOWN:
                raise Invalid(
                    f"No repository config type registered for name {name[:80]}; known are "
                    f"{', '.join(_TYPES)}"
                )
        kept = dict(_present(self._rows.fetch(SETTINGS_KEY)).settings)
        return [_settings(kept[name]) for name in wanted if name in kept]

    def update(self, call: Call, config: Mapping[str, Any]) -> Settings | None:
        """Replaces the settings of one type and returns what they were, None if never set."""
        self._access.decide(call, Action.WRITE_SETTINGS)
        request = self._claims.request(call, Action.WRITE_SETTINGS, "")
        claimed = None if request is None else find_claim(self._context, request)
        name, settings = _checked(config)
        writer = _Writer(self._context.random.random_bytes(_OPERATION_BYTES))
        if request is not None:
            claimed = claimed or claim_request(self._context, request, 0)
            writer = _Writer(claimed.operation, claim_key(request.principal, request.key))
        return self._replace(name, lambda _: settings, writer)

    def change(self, call: Call, name: str, make: Callable[[Settings | None], Settings]) -> None:
        """Replaces the settings of one type by what is made of those that are there.

        `make` may refuse by raising; it is called again if another writer was first.
        """
        self._access.decide(call, Action.WRITE_SETTINGS)
        writer = _Writer(self._context.random.random_bytes(_OPERATION_BYTES))
        self._replace(name, lambda before: _checked(make(before))[1], writer)

    def remove(self, call: Call, name: str) -> None:
        """Removes the settings of one type; NotFound if there are none."""
        self._access.decide(call, Action.WRITE_SETTINGS)
        writer = _Writer(self._context.random.random_bytes(_OPERATION_BYTES))

        def nothing(before: Settings | None) -> None:
            if before is None:
                raise NotFound(f"there are no settings of the type {name}")

        self._replace(name, nothing, writer)

    def find(self, call: Call, name: str) -> Settings | None:
        """Returns the settings of one type, None if there are none.

        They are for a decision on the call, and are not shown: the caller needs any right at all.
        """
        self._access.check_seen(call)
        raw = dict(_present(self._rows.fetch(SETTINGS_KEY)).settings).get(name)
        return None if raw is None else _settings(raw)

    def _replace(
        self, name: str, make: Callable[[Settings | None], Settings | None], writer: _Writer
    ) -> Settings | None:
        def decide(found: Stamped[SettingsRow] | None) -> Write[SettingsRow, bytes] | _Done:
            before = _present(found)
            done = self._find_done(before, writer)
            if done is not None:
                return done
            self._record(before)
            kept = dict(before.settings)
            replaced = kept.pop(name, b"")
            made = make(_settings(replaced) if replaced else None)
            if made is not None:
                kept[name] = _encode(made)
            row = SettingsRow(
                1,
                before.instance,
                before.version + 1,
                (writer.operation, *before.writers)[:SETTINGS_WRITERS_MAX],
                tuple(sorted(kept.items())),
                writer.claim,
                replaced if writer.claim else b"",
            )
            return Write(row, replaced)

        def find_done(write: Write[SettingsRow, bytes]) -> _Done | None:
            now = _present(self._rows.fetch(SETTINGS_KEY))
            if writer.claim:
                # Other copies of the request carry the same operation: the row has their answer.
                return self._find_done(now, writer)
            if writer.operation in now.writers:
                return Done(write.answer)
            if now.version - write.row.version >= SETTINGS_WRITERS_MAX:
                raise doubt.error("too many others wrote since")
            return None

        doubt = Doubt(f"the settings {name} were changed", "read them")
        replaced = self._rows.swap(
            SETTINGS_KEY, decide, self._context.retry(), doubt, find_done=find_done
        )
        return _settings(replaced) if replaced else None

    def _find_done(self, row: SettingsRow, writer: _Writer) -> _Done | None:
        """Returns the answer to an earlier copy of the same request.

        The row was read before the claim: the answer is recorded in the claim before it leaves
        the row.
        """
        if not writer.claim:
            return None
        if row.writers[:1] == (writer.operation,):
            return Done(row.replaced)
        found = self._claim_rows.fetch(writer.claim)
        if found is None or not found.row.outcome:
            return None
        return Done(found.row.outcome.removeprefix(_ANSWERED))

    def _record(self, row: SettingsRow) -> None:
        """Records in its claim what the last writer has replaced, if it had an idempotency key."""
        if row.claim:
            self._claim_rows.record(
                row.claim, row.writers[0], _ANSWERED + row.replaced, self._context.retry()
            )


def _present(found: Stamped[SettingsRow] | None) -> SettingsRow:
    if found is None:
        raise Corrupt("the repository has lost its settings")
    return found.row


def _settings(raw: bytes) -> Settings:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"not stored settings: {error}") from None


def _checked(config: Mapping[str, Any]) -> tuple[str, Settings]:
    """Returns the type and the settings without what is not set."""
    name = config.get("type")
    if not isinstance(name, str) or not name:
        raise Invalid("a repository config has a type")
    kind = _TYPES.get(name)
    if kind is None:
        raise Invalid(
            f"Repository config type bundle for '{name[:80]}' is not available on the Nessie "
            "server side."
        )
    try:
        rules = msgspec.convert(dict(config), kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"not a repository config of type {name}: {error}") from None
    rules.check()
    settings: Settings = msgspec.to_builtins(rules)
    size = len(_encode(settings))
    if size > SETTINGS_BYTES_MAX:
        raise TooLarge(f"settings of {size} bytes are over the limit of {SETTINGS_BYTES_MAX}")
    return name, settings


def _check_policy(text: str) -> None:
    if text.upper() == "NONE" or _COUNT.fullmatch(text):
        return
    if not _DURATION.fullmatch(text) and not _INSTANT.fullmatch(text):
        raise Invalid(f"Failed to parse default-cutoff-value '{text[:80]}': {_POLICIES}")
