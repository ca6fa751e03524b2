"""Policies as files, in JSON or in TOML; an error names its place.

{"id": "read-sales", "statements": [{"effect": "allow", "actions": ["read"], "keys": ["sales.*"]}]}
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec

from lochan.base.errors import Invalid
from lochan.model.access import AccessPolicy, Statement
from lochan.wire.strict import check_unique_names


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy as people write it; `created` and `version`, which are shown, are not read."""

    id: str
    statements: tuple[Statement, ...]
    description: str = ""
    created: Any = None
    version: Any = None


def read_policy_file(path: Path) -> AccessPolicy:
    """Reads a file, `-` for standard input; Invalid names the place of an error."""
    try:
        with click.open_file(str(path), "rb") as stream:
            raw = stream.read()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    name = "standard input" if str(path) == "-" else str(path)
    try:
        parsed = _parse(raw, path.suffix)
        file = msgspec.convert(parsed, PolicyFile)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        # Of JSON and of TOML, of characters and of fields: all of them name the place.
        raise Invalid(f"{name} is not a policy: {error}") from None
    except Invalid as error:
        raise Invalid(f"{name} is not a policy: {error.message}") from None
    return AccessPolicy(file.id, file.statements, file.description)


def _parse(raw: bytes, suffix: str) -> Any:
    """Parses what the name of a file promises, without one what its first character does."""
    text = raw.decode("utf-8")
    if suffix == ".toml" or (suffix != ".json" and not text.lstrip().startswith("{")):
        return tomllib.loads(text)
    parsed = json.loads(text)
    check_unique_names(raw)
    return parsed
