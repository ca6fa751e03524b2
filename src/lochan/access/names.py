"""Ids of users, groups and policies: letters, digits and some marks, so that each has one form.

The key of a row consists of ids, so a text is checked before it becomes part of a key. User ids
that begin with `oidc:` belong to users that another party has authenticated.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.access import ACCESS_ID_CHARACTERS_MAX
from lochan.model.access import SubjectKind

EVERYONE: Final = "everyone"
"""The group of all authenticated callers; it has no row and no memberships."""

OIDC_PREFIX: Final = "oidc:"

_USER: Final = re.compile(r"(?:oidc:)?[A-Za-z0-9][A-Za-z0-9._@-]*\Z")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_CREDENTIAL: Final = re.compile(r"[A-Za-z0-9]{1,64}\Z")


def is_user_id(text: str) -> bool:
    """Returns whether a text can be the id of a user."""
    length = len(text.removeprefix(OIDC_PREFIX))
    return length <= ACCESS_ID_CHARACTERS_MAX and _USER.match(text) is not None


def is_name(text: str) -> bool:
    """Returns whether a text can be the id of a group or of a policy."""
    return len(text) <= ACCESS_ID_CHARACTERS_MAX and _NAME.match(text) is not None


def is_credential_id(text: str) -> bool:
    """Returns whether a text can be the id of a token or of an access key."""
    return _CREDENTIAL.match(text) is not None


def user_id(text: str) -> str:
    """Checks the id of a user."""
    if not is_user_id(text):
        raise Invalid(
            f"not the id of a user: {text[:80]!r}; it begins with a letter or a digit and holds "
            f"letters, digits and . _ @ -, at most {ACCESS_ID_CHARACTERS_MAX} of them; one of OIDC "
            f"begins with {OIDC_PREFIX}"
        )
    return text


def group_id(text: str) -> str:
    """Checks the id of a group."""
    return _name("group", text)


def policy_id(text: str) -> str:
    """Checks the id of a policy."""
    return _name("policy", text)


def credential_id(text: str) -> str:
    """Checks the id of a token or of an access key."""
    if not is_credential_id(text):
        raise Invalid(f"not the id of a token or of an access key: {text[:80]!r}")
    return text


def check_joinable(group: str) -> None:
    """Checks the id of a group that can be created, deleted and joined."""
    group_id(group)
    if group == EVERYONE:
        raise Invalid(
            f"every authenticated caller is in the group {EVERYONE!r}: it is not created, deleted "
            "or joined; policies can be attached to it"
        )


def check_subject(kind: SubjectKind, subject: str) -> None:
    """Checks the id of a user or a group that a policy can be attached to."""
    if kind not in ("user", "group"):
        raise Invalid(f"a policy is attached to a user or to a group, not to a {kind!r}")
    if kind == "user":
        user_id(subject)
    else:
        group_id(subject)


def _name(noun: str, text: str) -> str:
    if not is_name(text):
        raise Invalid(
            f"not the id of a {noun}: {text[:80]!r}; it begins with a letter or a digit and holds "
            f"letters, digits and . _ -, at most {ACCESS_ID_CHARACTERS_MAX} of them"
        )
    return text
