"""Set-up without a person: the first user and its token, when a server starts for the first time.

1. If access is set up, nothing is done; the file is not even read.
2. If the file of the token exists, its token is used. Otherwise one is made, and written to the
   file, for its owner only. (A crash leaves the file; the next start uses it.)
3. Set up with that token. If another server was first with another token, the file that was made
   here is removed: its token would never count.

The token is never printed or logged.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from lochan.access.directory import Directory
from lochan.access.policy import Call
from lochan.access.tokens import new_token, parse_token
from lochan.base.errors import AlreadyExists, Invalid
from lochan.base.limits.credentials import SERVER_KEYS_TEXT_BYTES_MAX
from lochan.base.ports import Random
from lochan.service.access import AccessControl
from lochan.settings import Settings

_LOG: Final = logging.getLogger("lochan.serve")
_OWNER_ONLY: Final = 0o600
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def set_up_first_user(
    settings: Settings, directory: Directory, control: AccessControl, random: Random
) -> None:
    """Sets up, if the settings want it and it was not done before."""
    if not settings.setup_user or directory.find_setup() is not None:
        return
    file = Path(settings.setup_token_file)
    token = _read_token(file)
    made_here = False
    if token is None:
        _, token, _ = new_token(random)
        made_here = _write_exclusively(file, token + "\n")
        if not made_here:
            token = _read_token(file)
            if token is None:
                raise Invalid(f"the file {file} of the setting setup_token_file was removed")
    try:
        control.set_up(Call(), settings.setup_user, token)
    except AlreadyExists:
        # Another server was first.
        if made_here:
            file.unlink(missing_ok=True)
        _LOG.warning("access set up by another server user=%s", settings.setup_user)
        return
    _LOG.info("access set up user=%s token_file=%s", settings.setup_user, file)


def _read_token(file: Path) -> str | None:
    """Returns the token in a file, None if there is no file; Invalid if it holds none."""
    try:
        with file.open(encoding="ascii") as opened:
            text = opened.read(SERVER_KEYS_TEXT_BYTES_MAX).strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise Invalid(f"the file {file} of the setting setup_token_file cannot be read") from None
    if parse_token(text) is None:
        raise Invalid(
            f"the file {file} of the setting setup_token_file holds no token; remove it, and the "
            "server makes one"
        )
    return text


def _write_exclusively(file: Path, text: str) -> bool:
    """Writes a file for its owner only, whole or not at all; False if there is one already."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, _NEW, _OWNER_ONLY), "w", encoding="ascii") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        try:
            # Unlike a rename, this never replaces a file.
            os.link(unfinished, file)
        except FileExistsError:
            return False
        finally:
            unfinished.unlink()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Invalid(
            f"the file {file} of the setting setup_token_file cannot be written: {reason}"
        ) from None
    return True
