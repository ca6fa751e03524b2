"""References in URLs and in texts: `name`, `name@hash`, `@hash`, each followed by relative steps.

The messages are those that clients of the Nessie API know. A `-` is the default branch. Unlike
Nessie, which keeps only the last of several steps in a URL, all of them count.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from lochan.base.errors import Invalid

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

# Two dots are looked for apart: a look ahead at every letter made this the slowest expression.
_NAME: Final = r"[A-Za-z](?:[A-Za-z0-9./_-]*[A-Za-z0-9_-])?|-"
_HASH: Final = r"[0-9a-fA-F]{8,64}"
_STEP: Final = (
    r"[~*^](?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,9})?Z|[0-9]+)"
)
_REF_PATH: Final = re.compile(rf"({_NAME})?(?:@({_HASH})?)?((?:{_STEP})*)")
_ON_REF: Final = re.compile(rf"({_HASH})?((?:{_STEP})*)")
_ONLY_NAME: Final = re.compile(_NAME)
_ONLY_HASH: Final = re.compile(_HASH)


class RefPath(msgspec.Struct, frozen=True, gc=False):
    """A reference as a URL names it; without a name it is a commit by its hash (detached)."""

    name: str | None
    hash: str | None = None
    steps: str = ""

    @property
    def on_ref(self) -> str | None:
        """The hash with its steps, None if there is neither."""
        return (self.hash or "") + self.steps or None

    def spec(self) -> str:
        """Returns the text by which `service` finds it."""
        if self.hash is None:
            return (self.name or "") + self.steps
        return f"{self.name or ''}@{self.hash}{self.steps}"

    def path(self) -> str:
        """Returns the text for a URL, not yet percent-encoded."""
        name = self.name or ""
        at = "@" if self.hash is not None or self.name is None or "/" in name else ""
        return f"{name}{at}{self.hash or ''}{self.steps}"


def parse_ref_path(text: str) -> RefPath:
    """Reads a reference from a URL; Invalid if it is none."""
    match = _REF_PATH.fullmatch(text)
    if match is None or not text or ".." in (match[1] or ""):
        raise Invalid(
            f"{NAME_MESSAGE}, optionally followed by @ and a hash with optional relative part; "
            f"{HASH_MESSAGE[0].lower()}{HASH_MESSAGE[1:]}; {STEP_MESSAGE} - but was: {text[:200]}"
        )
    name, digits, steps = match.groups()
    return RefPath(name, None if digits is None else digits.lower(), steps)


def parse_on_ref(name: str | None, text: str | None) -> RefPath:
    """Reads a hash with relative steps on a reference; Invalid if it is none."""
    if not text:
        return RefPath(name)
    match = _ON_REF.fullmatch(text)
    if match is None:
        raise Invalid(
            f"{HASH_MESSAGE}, optionally followed by relative parts, or be those alone; "
            f"{STEP_MESSAGE} - but was: {text[:200]}"
        )
    digits, steps = match.groups()
    return RefPath(name, None if digits is None else digits.lower(), steps)


def check_name(text: str) -> str:
    """Returns a name that a reference may have; Invalid if it is none."""
    if _ONLY_NAME.fullmatch(text) is None or ".." in text:
        raise Invalid(f"{NAME_MESSAGE} - but was: {text[:200]}")
    return text


def check_new_name(text: str) -> str:
    """Returns a name that a new reference may have; Invalid if it is none or reserved."""
    check_name(text)
    if "." in text.split("/"):
        raise Invalid(f"{NAME_MESSAGE}, and not have a segment '.' - but was: {text[:200]}")
    if text.upper() in ("HEAD", "DETACHED") or _ONLY_HASH.fullmatch(text):
        raise Invalid(f"{FORBIDDEN_MESSAGE} - but was {text[:200]}")
    return text


def check_hash(text: str) -> str:
    """Returns a hash without steps, in lower case; Invalid if it is none."""
    if _ONLY_HASH.fullmatch(text) is None:
        raise Invalid(f"{HASH_MESSAGE} - but was: {text[:200]}")
    return text.lower()
