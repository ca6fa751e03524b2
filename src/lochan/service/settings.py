"""What a repository keeps for tools, by type; today the rules of the garbage collector.

One row for all types, written by compare-and-swap. It remembers its last writers, so that one whose
reply was lost can find out whether it had written. It is there from the beginning: a repository
without it has lost its settings, which is not the same as never having had any.

If the last writer had an idempotency key, the row remembers what it replaced, too, which is its
answer; whoever writes next records that in the claim of the key before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from lochan.base.errors import Corrupt, Exhausted, Invalid, TooLarge, Unavailable, Unknown
from lochan.base.limits import SETTINGS_BYTES_MAX, SETTINGS_POLICIES_MAX, SETTINGS_WRITERS_MAX
from lochan.codec.rows import SettingsRow, decode_any_row, encode_row
from lochan.kernel.claims import claim_request, find_claim
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import SETTINGS_KEY
from lochan.kv.store import Expected, Kind, Stamp, Won, partition
from lochan.persist.claims import ClaimRows, claim_key
from lochan.service.calls import Call
from lochan.service.claims import Claims
from lochan.service.policy import Access, Action

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
        """Refuses policies and durations that nobody could follow."""
        if self.default_cutoff_policy is not None:
            _check_policy(self.default_cutoff_policy)
        if len(self.per_ref_cutoff_policies) > SETTINGS_POLICIES_MAX:
            raise TooLarge(f"there are at most {SETTINGS_POLICIES_MAX} policies by reference")
        for one in self.per_ref_cutoff_policies:
            _check_policy(one.policy)
        period = self.new_files_grace_period
        if period is not None and not _DURATION.fullmatch(period):
            raise Invalid(f"newFilesGracePeriod is a duration like PT3H, not {period[:80]!r}")


_TYPES: Final = {"GARBAGE_COLLECTOR": _GarbageCollector}

# A type that Nessie knows by name and that nothing is ever kept under.
_UNKNOWN: Final = "UNKNOWN"


class _Writer(msgspec.Struct, frozen=True):
    """Who writes settings: an operation, and the key of its claim if it has one."""

    operation: bytes
    claim: bytes = b""


class _Answer(msgspec.Struct, frozen=True):
    """What a write has replaced; empty if that type was never set before."""

    replaced: bytes

    @property
    def previous(self) -> Settings | None:
        """The settings as they were."""
        return _settings(self.replaced) if self.replaced else None


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
        self._place = partition(context.instance, Kind.META)

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
        row, _ = self._fetch()
        kept = dict(row.settings)
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
        return self._replace(name, settings, writer)

    def _replace(self, name: str, settings: Settings, writer: _Writer) -> Settings | None:
        context = self._context
        retry = context.retry()
        while True:
            before, stamp = self._fetch()
            kept = dict(before.settings)
            done = self._find_done(before, writer)
            if done is not None:
                return done.previous
            self._record(before)
            row = SettingsRow(
                1,
                before.instance,
                before.version + 1,
                (writer.operation, *before.writers)[:SETTINGS_WRITERS_MAX],
                tuple(sorted({**kept, name: _encode(settings)}.items())),
                writer.claim,
                kept.get(name, b"") if writer.claim else b"",
            )
            if self._write(name, row, stamp):
                return _settings(kept[name]) if name in kept else None
            if writer.claim:
                done = self._find_settled(name, writer)
                if done is not None:
                    return done.previous
            retry.again(at_once=retry.attempts == 1)

    def _find_settled(self, name: str, writer: _Writer) -> _Answer | None:
        """Looks after a swap that was not won; its reply may have been lost before."""
        try:
            return self._find_done(self._fetch()[0], writer)
        except Unavailable as error:
            raise _unknown(name, error.message) from error

    def _find_done(self, row: SettingsRow, writer: _Writer) -> _Answer | None:
        """Returns the answer to a try of the same request, this or another one.

        The row was read before the claim: what leaves the one is in the other by then.
        """
        if not writer.claim:
            return None
        if row.writers[:1] == (writer.operation,):
            return _Answer(row.replaced)
        found = self._claim_rows.find(writer.claim)
        if found is None or not found.claim.outcome:
            return None
        return _Answer(found.claim.outcome.removeprefix(_ANSWERED))

    def _record(self, row: SettingsRow) -> None:
        """Records what the last writer has answered, if it had a key."""
        if row.claim:
            self._claim_rows.record(row.claim, row.writers[0], _ANSWERED + row.replaced)

    def _fetch(self) -> tuple[SettingsRow, Stamp]:
        entry = self._context.store.get(self._place, SETTINGS_KEY)
        if entry is None:
            raise Corrupt("the repository has lost its settings")
        return decode_any_row(SettingsRow, entry.value), entry.stamp

    def _write(self, name: str, row: SettingsRow, expected: Expected) -> bool:
        """Swaps the row; after a lost reply sends the same again, then looks for its writer."""
        context = self._context
        raw = encode_row(row)
        retry = context.retry()
        trouble: Unknown | None = None
        while True:
            try:
                outcome = context.store.set_if(self._place, SETTINGS_KEY, raw, expected)
                if isinstance(outcome, Won):
                    return True
                if row.claim:
                    # Other tries of the request carry the same operation: who did it, the row says.
                    return False
                return trouble is not None and self._took_effect(name, row)
            except Unknown as error:
                trouble = error
            except Unavailable:
                # Without effect, but an earlier one may have had one.
                if trouble is None:
                    raise
            try:
                retry.again()
            except Exhausted as error:
                raise _unknown(name, error.message) from trouble

    def _took_effect(self, name: str, row: SettingsRow) -> bool:
        """Tells whether a write that is not in place any more had been there."""
        now, _ = self._fetch()
        if row.writers[0] in now.writers:
            return True
        if now.version - row.version >= SETTINGS_WRITERS_MAX:
            raise _unknown(name, "too many others wrote since")
        return False


def _unknown(name: str, reason: str) -> Unknown:
    text = f"it is unknown whether the settings {name} were changed"
    return Unknown(f"{text} ({reason}); read them", public=f"{text}; read them")


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
