"""Files for secrets: created for their owner only, before the secret exists."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lochan.base.errors import Invalid, Unavailable, Unknown

_OWNER_ONLY: Final = 0o600


@contextmanager
def secret_file(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yields the function that writes a secret to a new file; without a path it does nothing.

    The file is created first, so that no secret is made that could not be stored. It is removed
    after an error, unless it is unknown whether the secret counts.
    """
    if path is None:
        yield lambda _: None
        return
    try:
        # A file that exists may be read by others already, or be a link to one.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except OSError as error:
        raise Invalid(f"{path} cannot be created: {error.strerror}") from None

    def write(secret: str) -> None:
        try:
            os.write(descriptor, f"{secret}\n".encode())
            os.fsync(descriptor)
        except OSError as error:
            raise Unavailable(
                f"the secret could not be written to {path}: {error.strerror}; delete what was "
                "created, and create it again"
            ) from None

    try:
        yield write
    except Unknown:
        raise
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
