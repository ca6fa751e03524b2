"""Profiles: servers with the credentials for them, in a file of the user.

The file is `credentials.toml` in `$XDG_CONFIG_HOME/lochan` (`~/.config/lochan`), or what
`LOCHAN_CREDENTIALS` names. `lochan login` writes it, and only its owner can read it:

    [default]
    url = "https://catalog.example"
    token = "lochan_…"

    [nightly]
    url = "https://catalog.example"
    access_key_id = "…"
    access_key_secret = "…"
    repository = "sales"
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid, NotFound
from lochan.base.limits.client import CREDENTIALS_FILE_BYTES_MAX
from lochan.client.addresses import base_url
from lochan.client.secret_files import SecretFile, one_writer, write_private

FILE_VARIABLE: Final = "LOCHAN_CREDENTIALS"
"""The path of the file with the profiles, if it is not the usual one."""

PROFILE_VARIABLE: Final = "LOCHAN_PROFILE"
"""The profile that is used where none is named."""

DEFAULT_PROFILE: Final = "default"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_FILE_NAME: Final = "credentials.toml"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server and the credentials for it: a token, or the id and the secret of an access key.

    `insecure` allows to send them without encryption. `expires_at` is when the token ends.
    """

    url: str
    token: str = ""
    access_key_id: str = ""
    access_key_secret: str = ""
    repository: str = ""
    insecure: bool = False
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"Profile(url={self.url!r}, …)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", self.url)]


Profiles = Mapping[str, Profile]


def profiles_path() -> Path | None:
    """Returns where the profiles are; None if this process has no home directory."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = Path(config) if config and Path(config).is_absolute() else Path.home() / ".config"
    except RuntimeError:
        return None
    return folder / "lochan" / _FILE_NAME


class ProfileFile:
    """The file with the profiles; one that is missing has none."""

    def __init__(self, path: Path | None = None) -> None:
        self.path: Final = profiles_path() if path is None else path
        self._file: Final = (
            None
            if self.path is None
            else SecretFile(self.path, CREDENTIALS_FILE_BYTES_MAX, self._parse, private=True)
        )

    def read(self) -> Profiles:
        """Returns all profiles by their names."""
        if self._file is None:
            return {}
        try:
            return self._file.read()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            if not os.environ.get(FILE_VARIABLE) and isinstance(error, PermissionError):
                # The home directory of another user, as in a container.
                return {}
            raise Invalid(f"{self.path} cannot be read: {error.strerror}") from None

    def get(self, name: str) -> Profile:
        """Returns a profile; NotFound if there is none of that name."""
        found = self.read().get(check_profile_name(name))
        if found is None:
            raise NotFound(f"there is no profile {name!r} in {self.path}; `lochan login` makes one")
        return found

    def store(self, name: str, profile: Profile) -> Path:
        """Adds or replaces a profile; returns the path of the file."""
        check_profile_name(name)
        return self._write(lambda profiles: {**profiles, name: profile})

    def remove(self, name: str) -> bool:
        """Removes a profile; returns whether there was one."""
        if name not in self.read():
            return False
        self._write(lambda profiles: {each: profiles[each] for each in profiles if each != name})
        return True

    def _write(self, change: Callable[[Profiles], Profiles]) -> Path:
        if self.path is None:
            raise Invalid(f"this user has no home directory: set {FILE_VARIABLE} to a path")
        try:
            # A link, such as one into a repository of settings, stays a link.
            path = self.path.resolve()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with one_writer(path.parent):
                write_private(path, _format(change(self.read())).encode())
        except OSError as error:
            raise Invalid(f"{self.path} cannot be written: {error.strerror}") from None
        return path

    def _parse(self, content: bytes) -> Profiles:
        try:
            tables = tomllib.loads(content.decode("utf-8"))
            for name in tables:
                check_profile_name(name)
            profiles = msgspec.convert(tables, dict[str, Profile])
        except UnicodeDecodeError:
            raise Invalid(f"{self.path} is not UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise Invalid(f"{self.path} is not TOML: {error}") from None
        except msgspec.ValidationError as error:
            raise Invalid(f"{self.path} is not a file of profiles: {error}") from None
        for name, profile in profiles.items():
            _check(f"the profile {name!r} in {self.path}", profile)
        return profiles


def check_profile_name(name: str) -> str:
    """Returns the name of a profile; Invalid if it cannot be one."""
    if not _NAME.match(name):
        raise Invalid("the name of a profile has up to 64 letters, digits, - and _")
    return name


def _check(what: str, profile: Profile) -> None:
    base_url(profile.url, "default")
    if bool(profile.access_key_id) != bool(profile.access_key_secret):
        raise Invalid(f"{what} has half of an access key: it needs id and secret")
    if bool(profile.token) == bool(profile.access_key_id):
        raise Invalid(f"{what} needs a token or an access key, and not both")
    if profile.expires_at is not None and profile.expires_at.tzinfo is None:
        raise Invalid(f"{what} has a time without a time zone in expires_at")


def _format(profiles: Profiles) -> str:
    """Returns the text of a file; each value is one line."""
    lines = ["# Written by `lochan login`. It holds secrets: only its owner may read it."]
    for name, profile in profiles.items():
        lines += ["", f"[{name}]", *_fields(profile)]
    return "\n".join(lines) + "\n"


def _fields(profile: Profile) -> Iterator[str]:
    for field in msgspec.structs.fields(profile):
        value = getattr(profile, field.name)
        if value == field.default:
            continue
        if isinstance(value, datetime):
            text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        else:
            # JSON's texts and truth values are TOML's too.
            text = json.dumps(value, ensure_ascii=False)
        yield f"{field.name} = {text}"
