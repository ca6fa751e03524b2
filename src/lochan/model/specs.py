"""Reference specifications: `main`, `main@hash`, `@hash`, each followed by relative steps.

`~N` is the N-th ancestor by first parents, `^N` the N-th parent (1 is the first), `*T` the youngest
ancestor by first parents that is not younger than a time (milliseconds since 1970, or ISO 8601 in
UTC). A `-` names the default branch. Unlike Nessie, which uses only the last of several steps in a
URL, all of them are followed.

A text is parsed here, once, where it enters: by the server, the client or the embedded library.
Everything below takes the value. The messages are those that clients of the Nessie API know.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.requests import SPEC_STEPS_MAX

NAME_RULE: Final = (
    "start with a letter, followed by letters, digits, one of the ./_- characters, "
    "not end with a slash or dot, not contain '..'"
)
NAME_MESSAGE: Final = f"Reference name must {NAME_RULE}"
HASH_MESSAGE: Final = "Hash must consist of the hex representation of 4-32 bytes"
STEP_MESSAGE: Final = (
    "a relative part is '~' and a number (the n-th predecessor), '^' and a number (the n-th "
    "parent) or '*' and a time (milliseconds since 1970, or ISO 8601 in UTC)"
)
FORBIDDEN_MESSAGE: Final = (
    "Reference name must not be HEAD, DETACHED or a potential commit ID representation."
)

# Two dots are searched for separately: a look-ahead at every letter made this expression slow.
_NAME: Final = r"[A-Za-z](?:[A-Za-z0-9./_-]*[A-Za-z0-9_-])?|-"
_HASH: Final = r"[0-9a-fA-F]{8,64}"
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,9})?Z"
_STEP: Final = rf"[~*^](?:{_TIME}|[0-9]+)"
_PATH: Final = re.compile(rf"({_NAME})?(?:@({_HASH})?)?((?:{_STEP})*)")
_ON_REFERENCE: Final = re.compile(rf"({_HASH})?((?:{_STEP})*)")
_ONLY_NAME: Final = re.compile(_NAME)
_ONLY_HASH: Final = re.compile(_HASH)
_ONE_STEP: Final = re.compile(_STEP)
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_HASH_FIRST: Final = re.compile(r"[0-9a-fA-F]{64}(?![0-9A-Za-z._/-])")


class Step(msgspec.Struct, frozen=True, gc=False):
    """One relative step as it was written; `number` is microseconds since 1970 for a `*`."""

    text: str
    number: int

    @property
    def mark(self) -> str:
        """The first character: `~`, `^` or `*`."""
        return self.text[0]


class ReferenceSpec(msgspec.Struct, frozen=True):
    """A reference, a commit by its hash, or a commit of a reference; then relative steps.

    `hash` has 8 to 64 lower-case hex digits. Without a name and a hash the steps start at a commit
    that the context names.
    """

    name: str | None = None
    hash: str | None = None
    steps: tuple[Step, ...] = ()

    @property
    def on_reference(self) -> str:
        """The hash and the steps as text, without the name; empty if there is neither."""
        steps = "".join([step.text for step in self.steps]) if self.steps else ""
        return f"{self.hash or ''}{steps}"

    def text(self) -> str:
        """Returns the text that parses to this value."""
        at = "" if self.hash is None else "@"
        return f"{self.name or ''}{at}{self.on_reference}"


def parse_spec(text: str) -> ReferenceSpec:
    """Parses what a user writes: a hash of 64 digits alone is a commit; Invalid if malformed."""
    return parse_path(f"@{text}" if _HASH_FIRST.match(text) else text)


def parse_path(text: str) -> ReferenceSpec:
    """Parses a segment of a URL, where a hash follows an `@`; Invalid if malformed."""
    match = _PATH.fullmatch(text)
    if match is None or not text or ".." in (match[1] or ""):
        raise Invalid(
            f"{NAME_MESSAGE}, optionally followed by @ and a hash with optional relative part; "
            f"{HASH_MESSAGE[0].lower()}{HASH_MESSAGE[1:]}; {STEP_MESSAGE} - but was: {text[:200]}"
        )
    name, digits, steps = match.groups()
    return _spec(name, digits, steps)


def parse_on_reference(name: str | None, text: str | None) -> ReferenceSpec:
    """Parses a hash with relative steps on a reference; Invalid if malformed."""
    if not text:
        return ReferenceSpec(name)
    match = _ON_REFERENCE.fullmatch(text)
    if match is None:
        raise Invalid(
            f"{HASH_MESSAGE}, optionally followed by relative parts, or be those alone; "
            f"{STEP_MESSAGE} - but was: {text[:200]}"
        )
    digits, steps = match.groups()
    return _spec(name, digits, steps)


def parse_expected(text: str | None) -> ReferenceSpec | None:
    """Parses a hash with relative steps that a caller may leave out; Invalid if malformed."""
    return None if text is None else parse_on_reference(None, text)


def parse_commit(text: str) -> ReferenceSpec:
    """Parses a commit that is named by its hash, with relative steps; Invalid if malformed."""
    spec = parse_spec(text)
    if spec.name is not None or spec.hash is None:
        raise Invalid(f"a commit is named by its whole hash, not by {text[:80]!r}")
    return spec


def check_name(text: str) -> str:
    """Returns a name that a reference may have; Invalid if it is malformed."""
    if _ONLY_NAME.fullmatch(text) is None or ".." in text:
        raise Invalid(f"{NAME_MESSAGE} - but was: {text[:200]}")
    return text


def parse_name(text: str) -> str:
    """Returns the name of a reference that a user writes; Invalid for a hash of 64 digits too."""
    if _HASH_FIRST.fullmatch(text):
        raise Invalid(f"a branch or tag is named here, not a commit: {text}")
    return check_name(text)


def check_new_name(text: str) -> str:
    """Returns a name that a new reference may have; Invalid if it is malformed or reserved."""
    check_name(text)
    if "." in text.split("/"):
        raise Invalid(f"{NAME_MESSAGE}, and not have a segment '.' - but was: {text[:200]}")
    if text.upper() in ("HEAD", "DETACHED") or _ONLY_HASH.fullmatch(text):
        raise Invalid(f"{FORBIDDEN_MESSAGE} - but was {text[:200]}")
    return text


def _spec(name: str | None, digits: str | None, steps: str) -> ReferenceSpec:
    return ReferenceSpec(
        name, None if digits is None else digits.lower(), _steps(steps) if steps else ()
    )


def _steps(text: str) -> tuple[Step, ...]:
    found = _ONE_STEP.findall(text)
    if len(found) > SPEC_STEPS_MAX:
        raise Invalid(
            f"not a relative spec: {text[:80]!r}; use at most {SPEC_STEPS_MAX} of ~N ^N *T"
        )
    return tuple([Step(step, _number(step[0], step[1:])) for step in found])


def _number(mark: str, value: str) -> int:
    is_number = _NUMBER.fullmatch(value) is not None
    if mark != "*":
        if not is_number:
            raise Invalid(f"not a number of steps: {value[:40]!r}")
        return int(value)
    if is_number:
        return int(value) * 1_000
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1_000_000)
    except ValueError:
        raise Invalid(f"not a time: {value[:40]!r}; use ISO 8601 or milliseconds") from None
