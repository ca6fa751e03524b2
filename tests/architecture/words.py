"""Words that are not used as terms in source, docs and help, and the places where one is right.

Readers are engineers who did not take part in our conversations, many of them not native speakers
of English. A metaphor, a "told" or a "nobody" has to be decoded; the word of the field does not.
Names of identifiers are split, so `_told_at` and `ErrandBase` are found like the words themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Folders and files that still have to be rewritten; they are not checked. Empty it, then delete it.
STILL_TO_REWRITE: tuple[str, ...] = (
    "src/lochan/assembly/",
    "src/lochan/catalog/",
    "src/lochan/cli/",
    "src/lochan/embedded/",
    "src/lochan/http/",
    "src/lochan/kernel/",
    "src/lochan/process.py",
    "src/lochan/rules/",
    "src/lochan/service/",
    "src/lochan/settings.py",
    "src/lochan/spark/",
    "src/lochan/system.py",
    "src/lochan/telemetry/",
    "src/lochan/testing/",
)

# What to write instead, by the word; each also in its plural and its other forms.
INSTEAD: dict[str, str] = {
    "room|rooms": "package",
    "floor|floors": "layer",
    "door|doors": "command, interface",
    "street|streets": "the highest layer",
    "house|houses": "project, source",
    "story|stories": "example, recording",
    "errand|errands": "command context, request",
    "desk|desks": "catalog, context",
    "patience": "retry policy",
    "chance|chances": "randomness, probability",
    "strand|strands": "greenlet",
    "swing|swings|swinging|swung": "swap",
    "told|tell|tells|telling": "report, return, answer, distinguish",
    "said": "stated, contained",
    "nobody|somebody|whoever": "the caller, the server, the writer: name the subject",
    "wish|wishes|wished": "request",
}


@dataclass(frozen=True)
class Allowed:
    """A place where a word is right: paths that begin with `where`, a pattern, the reason."""

    where: str
    pattern: str
    reason: str


ALLOWED = (
    Allowed("", r"\broom for\b", "free space, in the usual meaning of the phrase"),
    Allowed("src/lochan/kernel/", r"\bfloor\b", "a lower bound, in the usual meaning of the word"),
    Allowed("src/", r"\.tell\(\)", "a method of Python's files"),
    Allowed("docs/", r"`[^`]*::[\w:]+`", "names of tests, which are checked by themselves"),
)

_FORBIDDEN = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)


def old_words(where: str, text: str) -> list[str]:
    """Returns a message for each line of a text with a word that is not used."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for allowed in ALLOWED:
            if where.startswith(allowed.where):
                line = re.sub(allowed.pattern, " ", line, flags=re.IGNORECASE)
        for word in _FORBIDDEN.findall(_split(line)):
            found.append(f"{where}:{number} {word!r}: write {_instead(word)}")
    return found


def _split(line: str) -> str:
    """Returns a line with the words of identifiers apart: `told_at`, `ErrandBase`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", line.replace("_", " "))


def _instead(word: str) -> str:
    return next(text for forms, text in INSTEAD.items() if word.lower() in forms.split("|"))
