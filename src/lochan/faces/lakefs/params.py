"""What handlers read from a request: pages, paths, flags, and references in lakeFS's notation.

A reference is a name or a commit, followed by any number of `~N` (the N-th ancestor), `^N` (the
N-th parent; without a number 1 for both), or by one `@` (the last commit of a branch, without what
is staged) or `$` (what is staged alone). A commit is named by its id or by the first six or more
digits of it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.faces.calls import read_call
from lochan.model.specs import ReferenceSpec, Step, check_name
from lochan.transport.exchange import Exchange
from lochan.wire.lakefs import AMOUNT_DEFAULT, AMOUNT_MAX

_REF: Final = re.compile(r"([^~^@$]+)((?:[~^][0-9]*)*)([@$]?)")
_STEP: Final = re.compile(r"([~^])([0-9]*)")
_ID: Final = re.compile(r"[0-9a-f]{64}")
_ID_BEGIN: Final = re.compile(r"[0-9a-f]{6,63}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)

# No branch has a name of so many hex digits, so it is the beginning of an id.
_RESERVED_DIGITS: Final = 8

# The commit itself, and not the branch with what is staged.
_COMMITTED: Final = (Step("~0", 0),)

_STEPS_MAX: Final = 100


class Ref(msgspec.Struct, frozen=True):
    """A reference; `staged` if it is about what is staged alone."""

    spec: ReferenceSpec
    staged: bool = False


class PageIn(msgspec.Struct, frozen=True):
    """Which part of a listing is requested."""

    amount: int
    after: str
    prefix: str
    delimiter: str


def ref_of(exchange: Exchange, name: str = "ref") -> Ref:
    """Returns the reference in the path."""
    return parse_ref(exchange, exchange.params[name])


def parse_ref(exchange: Exchange, text: str) -> Ref:
    """Reads a reference; Invalid if it is malformed."""
    match = _REF.fullmatch(text)
    if match is None:
        raise Invalid(f"{text[:200]!r} is not a reference: invalid ref")
    base, steps, mark = match.groups()
    found = _STEP.findall(steps)
    if len(found) > _STEPS_MAX or any(len(number) > 9 for _, number in found):
        raise Invalid(f"{text[:200]!r} has too many steps: invalid ref")
    parsed = tuple(Step(f"{sign}{number or 1}", int(number or 1)) for sign, number in found)
    if _ID.fullmatch(base):
        return Ref(ReferenceSpec(None, base, parsed))
    if _ID_BEGIN.fullmatch(base):
        log = exchange.repository.commit_log
        if len(base) >= _RESERVED_DIGITS or not _is_name(exchange, base):
            return Ref(ReferenceSpec(None, log.find_id(read_call(exchange), base), parsed))
    if base[:1].isdigit():
        # A name begins with a letter, and an id has more digits.
        raise ReferenceNotFound(f"Named reference '{base[:200]}' not found")
    check_name(base)
    if mark == "@" and not parsed:
        parsed = _COMMITTED
    return Ref(ReferenceSpec(base, None, parsed), staged=mark == "$")


def _is_name(exchange: Exchange, text: str) -> bool:
    names = exchange.repository.references.list(read_call(exchange), limit=1, prefix=text).items
    return any(one.name == text for one in names)


def spec_of(exchange: Exchange, name: str = "ref") -> ReferenceSpec:
    """Returns the reference in the path, which means one state and not what is staged alone."""
    ref = ref_of(exchange, name)
    if ref.staged:
        raise Invalid("what is staged alone has no commit: leave out the '$'")
    return ref.spec


def branch_of(exchange: Exchange) -> str:
    """Returns the branch in the path."""
    return check_name(exchange.params["branch"])


def text_of(exchange: Exchange, name: str) -> str:
    """Returns a parameter, empty if there is none."""
    return exchange.request.query.get(name) or ""


def path_of(exchange: Exchange, name: str = "path") -> str:
    """Returns the path of the object that a request names."""
    path = exchange.request.query.get(name)
    if not path:
        raise Invalid(f"the parameter '{name}' is required: it names the object")
    return path


def flag_of(exchange: Exchange, name: str, *, default: bool = False) -> bool:
    """Returns a parameter that is true or false."""
    text = (exchange.request.query.get(name) or "").lower()
    if text not in ("", "true", "false", "1", "0"):
        raise Invalid(f"the parameter '{name}' is true or false: {text[:40]!r}")
    return text in ("true", "1") if text else default


def amount_of(exchange: Exchange) -> int:
    """Returns how many items a page has at most; lakeFS's own limit, if more are requested."""
    text = exchange.request.query.get("amount")
    if text is None or text == "":
        return AMOUNT_DEFAULT
    if not _NUMBER.fullmatch(text):
        raise Invalid(f"the parameter 'amount' is a number: {text[:40]!r}")
    amount = int(text)
    return AMOUNT_DEFAULT if amount <= 0 else min(amount, AMOUNT_MAX)


def page_of(exchange: Exchange) -> PageIn:
    """Returns which part of a listing is requested."""
    names = ("after", "prefix", "delimiter")
    return PageIn(amount_of(exchange), *(text_of(exchange, name) for name in names))
