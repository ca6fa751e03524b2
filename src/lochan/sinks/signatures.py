"""Signatures of webhook requests, in the form of Standard Webhooks: HMAC with SHA-256.

What is signed is `id.timestamp.body`. Each secret gives a signature, so a receiver that knows the
old or the new one accepts the request while a secret is replaced. Secrets come from a file, which
is read at each attempt, or from the environment; a secret never appears in a message.
"""

from __future__ import annotations

import hmac
import os
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.events import (
    WEBHOOK_SECRET_BYTES_MAX,
    WEBHOOK_SECRET_BYTES_MIN,
    WEBHOOK_SECRETS_MAX,
    WEBHOOK_SECRETS_TEXT_BYTES_MAX,
)
from lochan.base.secrets import Secret

ReadSecrets = Callable[[], tuple[Secret, ...]]
"""Returns the secrets at the moment; Invalid if they cannot be read."""

_PREFIX: Final = "whsec_"


def secrets_of_file(path: Path) -> ReadSecrets:
    """Reads a secret from each line of a file, at each call: a new one needs no restart."""

    def read() -> tuple[Secret, ...]:
        try:
            with path.open("rb") as file:
                raw = file.read(WEBHOOK_SECRETS_TEXT_BYTES_MAX + 1)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Invalid(f"the file of secrets cannot be read: {reason}") from None
        return parse_secrets(raw.decode("ascii", "replace"), "the file of secrets")

    return read


def secrets_of_environment(name: str) -> ReadSecrets:
    """Reads secrets, separated by spaces or lines, from a variable of the environment."""

    def read() -> tuple[Secret, ...]:
        return parse_secrets(os.environ.get(name, ""), f"the variable {name}")

    return read


def parse_secrets(text: str, source: str) -> tuple[Secret, ...]:
    """Returns secrets in base64, with or without `whsec_` before; lines with `#` are comments."""
    if len(text) > WEBHOOK_SECRETS_TEXT_BYTES_MAX:
        raise Invalid(f"{source} has more than {WEBHOOK_SECRETS_TEXT_BYTES_MAX} bytes")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    words = " ".join(lines).split()
    if not 1 <= len(words) <= WEBHOOK_SECRETS_MAX:
        raise Invalid(
            f"{source} has {len(words)} secrets; it needs one, and at most {WEBHOOK_SECRETS_MAX} "
            "while they are replaced"
        )
    for number, word in enumerate(words, 1):
        _check(word, f"secret {number} of {source}")
    return tuple(map(Secret, words))


def _check(word: str, which: str) -> None:
    try:
        size = len(_key_of(word))
    except ValueError:
        size = -1
    if not WEBHOOK_SECRET_BYTES_MIN <= size <= WEBHOOK_SECRET_BYTES_MAX:
        raise Invalid(
            f"{which} is not {WEBHOOK_SECRET_BYTES_MIN} to {WEBHOOK_SECRET_BYTES_MAX} bytes in "
            "base64; make one by `head -c 32 /dev/urandom | base64`"
        )


def _key_of(word: str) -> bytes:
    return a2b_base64(word.removeprefix(_PREFIX), strict_mode=True)


def signature_headers(
    secrets: tuple[Secret, ...], event_id: str, time_s: int, body: bytes
) -> dict[str, str]:
    """Returns the headers of a request; without secrets only the id and the time."""
    signed = f"{event_id}.{time_s}.".encode("ascii") + body
    found = {"webhook-id": event_id, "webhook-timestamp": str(time_s)}
    if secrets:
        found["webhook-signature"] = " ".join([f"v1,{_signature(one, signed)}" for one in secrets])
    return found


def _signature(secret: Secret, signed: bytes) -> str:
    return b64encode(hmac.digest(_key_of(secret.reveal()), signed, "sha256")).decode("ascii")
