"""The certificate of a server: loaded from its files, checked, and replaced while it is in use.

Nothing of a key is ever logged or part of a message; both name files and reasons only.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from lochan.base.errors import Invalid

_LOG: Final = logging.getLogger("lochan.http")


class Certificate:
    """A certificate with its key, and the TLS context that is made of them.

    Every connection takes `context` when it is accepted. So a reload changes all later handshakes
    and no open connection, and tickets of the old certificate are not accepted with the new one.
    """

    def __init__(self, certificate_file: str | Path, key_file: str | Path) -> None:
        self._certificate_file = Path(certificate_file)
        self._key_file = Path(key_file)
        self.context = self._build_context()

    def reload(self) -> bool:
        """Reads the files again; if they cannot be used, the old certificate stays in use."""
        try:
            context = self._build_context()
        except Invalid as error:
            _LOG.error(
                "certificate not reloaded certificate=%s reason=%r",
                self._certificate_file,
                error.message,
            )
            return False
        self.context = context
        _LOG.info("certificate reloaded certificate=%s", self._certificate_file)
        return True

    def _build_context(self) -> ssl.SSLContext:
        _check_file("tls_certificate", self._certificate_file, b"CERTIFICATE-----")
        _check_file("tls_key", self._key_file, b"PRIVATE KEY-----")
        # Not `create_default_context`: that one writes the secrets of all connections to the file
        # in SSLKEYLOGFILE, if the environment has it.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a function OpenSSL would ask for the password on the terminal.
            context.load_cert_chain(self._certificate_file, self._key_file, self._refuse_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise Invalid(
                    f"the key in {self._key_file} does not belong to the certificate in "
                    f"{self._certificate_file}; use the key that the certificate was made with"
                ) from None
            raise Invalid(
                f"the certificate in {self._certificate_file} with the key in {self._key_file} "
                f"cannot be used: {error.reason or 'they are not PEM'}"
            ) from None
        except OSError as error:
            raise Invalid(f"the certificate cannot be read: {error.strerror}") from None
        return context

    def _refuse_password(self) -> str:
        raise Invalid(
            f"the key in {self._key_file} is encrypted; use one without a password, in a file "
            "that only the server may read"
        )


def certificate_of(certificate_file: str, key_file: str) -> Certificate | None:
    """Returns the certificate that two settings name; None if both are empty."""
    if not certificate_file and not key_file:
        return None
    if not certificate_file or not key_file:
        missing = "tls_key" if certificate_file else "tls_certificate"
        raise Invalid(f"TLS needs tls_certificate and tls_key; the setting {missing} is missing")
    return Certificate(certificate_file, key_file)


def _check_file(setting: str, file: Path, mark: bytes) -> None:
    """Refuses a file that cannot be read or holds something else, by the name of its setting."""
    try:
        found = file.read_bytes()
    except OSError as error:
        raise Invalid(
            f"the file {file} of the setting {setting} cannot be read: {error.strerror}"
        ) from None
    if mark not in found:
        kind = mark.decode().rstrip("-").lower()
        raise Invalid(f"the file {file} of the setting {setting} holds no {kind} in PEM form")
