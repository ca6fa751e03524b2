"""Where the secret keys of the servers of a store come from; no message contains one.

| settings | store | keys |
|---|---|---|
| `secret_key` | any | those of the setting |
| `secret_key_file` | any | those of the file |
| neither | embedded | those of `access.key` beside it, which is made for its owner only |
| neither | in memory | one that ends with the process |
| neither | any other | none: they have to be named, so that all servers have the same |

Once access is set up no keys are made: they would open nothing.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from lochan.access.secrets import KeyRing, access_installed, new_key_text, parse_keys
from lochan.assembly.server_file import server_file
from lochan.base.errors import Invalid
from lochan.base.limits.credentials import SERVER_KEYS_TEXT_BYTES_MAX
from lochan.base.ports import Random
from lochan.client.secret_files import write_private
from lochan.kv.url import parse_store_url
from lochan.settings import Settings

KEY_FILE: Final = "access.key"

_LOG: Final = logging.getLogger("lochan.serve")


def load_keys(settings: Settings, random: Random, *, is_set_up: bool) -> KeyRing | None:
    """Returns the keys; None if there are none, and access cannot be set up then."""
    if settings.secret_key:
        return _ring(settings.secret_key.reveal(), "of the setting secret_key")
    if settings.secret_key_file:
        return _read(Path(settings.secret_key_file))
    if not access_installed():
        return None
    beside = server_file(settings.store)
    if beside is not None:
        return _load_beside(beside.with_name(KEY_FILE), random, is_set_up=is_set_up)
    if parse_store_url(settings.store).scheme == "memory":
        return _ring(new_key_text(random), "that were made now")
    return None


def _load_beside(file: Path, random: Random, *, is_set_up: bool) -> KeyRing:
    if not file.exists():
        if is_set_up:
            raise Invalid(
                f"the file {file} with the secret keys is missing, and access was set up with "
                "them: restore it, or name the file in the setting secret_key_file"
            )
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_private(file, f"{new_key_text(random)}\n".encode("ascii"))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Invalid(f"the file {file} cannot be written: {reason}") from None
    return _read(file)


def _read(path: Path) -> KeyRing:
    """Reads a file; those that a container gets are often readable by all, so that is no error."""
    try:
        with path.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read(SERVER_KEYS_TEXT_BYTES_MAX + 1).decode("ascii")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Invalid(f"the secret keys in {path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise Invalid(f"the secret keys in {path} are not base64, one on each line") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Invalid(
            f"other users can change {path}, which holds the secret keys; run `chmod 600 {path}`"
        )
    if mode & stat.S_IROTH:
        _LOG.warning("secret keys readable by all users file=%s mode=%o", path, stat.S_IMODE(mode))
    return _ring(text, f"in {path}")


def _ring(text: str, source: str) -> KeyRing:
    try:
        return KeyRing(parse_keys(text))
    except Invalid as error:
        raise Invalid(f"the secret keys {source} cannot be used: {error.message}") from None
