"""Hides secrets in texts that people and programs read later: logs, traces, audit lines.

A client may send a secret in a place that is logged: in a path, as the name of a branch. Whatever
has the form of a secret of ours is replaced. Passwords have no form, so that nothing here finds
them: they are never put into such a text.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.secrets import MASK

# Tokens; what is signed as a JSON Web Token, with or without its signature; secrets of access keys;
# keys of servers. A hash of 64 digits has none of these forms.
_FORMS: Final = (
    r"lochan_[a-z2-7]{16}_[a-z2-7]+",
    r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?",
    r"(?<![A-Za-z0-9])[a-z2-7]{52}(?![A-Za-z0-9])",
    r"[A-Za-z0-9+/]{43}=",
    r"(?i:\b(?:basic|bearer)[ :]+)(?=[a-z+/._~-]*[A-Z0-9=])[A-Za-z0-9+/=._~-]{8,}",
)
_SECRET: Final = re.compile("|".join(f"(?:{form})" for form in _FORMS))
_SECRET_BYTES: Final = re.compile(_SECRET.pattern.encode("ascii"))


def mask_text(text: str) -> str:
    """Returns a text with `***` in place of everything that has the form of a secret."""
    return _SECRET.sub(MASK, text)


def mask_bytes(text: bytes) -> bytes:
    """Returns the same for bytes."""
    return _SECRET_BYTES.sub(MASK.encode("ascii"), text)
