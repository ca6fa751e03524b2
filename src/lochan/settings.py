"""Settings of a server, and where each comes from.

A flag wins over `LOCHAN_<NAME>` in the environment, that over a line of `lochan.toml`, that over
the default. An error names the setting and the source of its value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from msgspec import Meta

from lochan.base.errors import Invalid
from lochan.base.limits.commits import COMMIT_TIMEOUT_MS, RETRY_SLEEP_FIRST_MS, RETRY_SLEEP_MAX_MS
from lochan.base.limits.server import DRAIN_TIMEOUT_S
from lochan.base.limits.storage import CACHE_BYTES_MAX

ENVIRONMENT_PREFIX: Final = "LOCHAN_"
SETTINGS_FILE: Final = Path("lochan.toml")

_MB: Final = 1_024 * 1_024


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that an operator may choose; `docs/settings.md` lists it."""

    store: Annotated[str, Meta(description="Where everything is kept.")] = "rocksdb:.lochan/store"
    host: Annotated[
        str,
        Meta(description="The address to listen on; loopback only, as there are no users yet."),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535, description="The port to listen on; 0 takes a free one.")
    ] = 19120
    host_names: Annotated[
        tuple[str, ...], Meta(description="Further names that clients may use in the Host header.")
    ] = ()
    files_port: Annotated[
        int,
        Meta(ge=0, le=65_535, description="A second port, for files; no face yet. 0 is off."),
    ] = 0
    unix_socket: Annotated[
        str, Meta(description="The path of a Unix socket that serves the same as the port.")
    ] = ""
    tls_certificate: Annotated[
        str, Meta(description="A file with the certificate chain, in PEM form; turns TLS on.")
    ] = ""
    tls_key: Annotated[
        str, Meta(description="A file with the key of the certificate, without a password.")
    ] = ""
    repository: Annotated[
        str, Meta(description="The repository that is served without naming one; made if missing.")
    ] = "default"
    default_branch: Annotated[
        str, Meta(description="The first branch of repositories that are made.")
    ] = "main"
    cache_mb: Annotated[
        int,
        Meta(ge=1, le=1_048_576, description="Memory for the caches of all repositories together."),
    ] = CACHE_BYTES_MAX // _MB
    commit_timeout_ms: Annotated[
        int, Meta(ge=1, le=600_000, description="How long all attempts of one commit may take.")
    ] = COMMIT_TIMEOUT_MS
    retry_sleep_low_ms: Annotated[
        int, Meta(ge=1, le=60_000, description="The shortest first sleep after a lost attempt.")
    ] = RETRY_SLEEP_FIRST_MS[0]
    retry_sleep_high_ms: Annotated[
        int, Meta(ge=1, le=60_000, description="The longest first sleep after a lost attempt.")
    ] = RETRY_SLEEP_FIRST_MS[1]
    retry_sleep_max_ms: Annotated[
        int, Meta(ge=1, le=60_000, description="Sleeps double up to this.")
    ] = RETRY_SLEEP_MAX_MS
    brief_threads: Annotated[
        int,
        Meta(ge=1, le=512, description="Threads for brief requests on stores that may block."),
    ] = 4
    publish_threads: Annotated[
        int, Meta(ge=1, le=512, description="Threads that publish on stores that may block.")
    ] = 12
    long_threads: Annotated[
        int, Meta(ge=1, le=64, description="Threads for long requests, on every store.")
    ] = 4
    drain_timeout_s: Annotated[
        float, Meta(ge=0, le=3_600, description="How long a stopping server waits for requests.")
    ] = DRAIN_TIMEOUT_S
    stack_traces: Annotated[
        bool, Meta(description="Whether answers to failed requests carry the server's traceback.")
    ] = False
    access_log: Annotated[
        Literal["off", "text", "json"],
        Meta(description="One line for each request on standard error."),
    ] = "off"
    metrics: Annotated[
        bool, Meta(description="Whether `/metrics` is served; needs the extra `telemetry`.")
    ] = False
    trace_endpoint: Annotated[
        str, Meta(description="Where traces are sent by OTLP over HTTP; empty sends none.")
    ] = ""
    trace_sampler: Annotated[
        float, Meta(ge=0, le=1, description="The share of requests that are traced.")
    ] = 1.0


SETTING_NAMES: Final = tuple(Settings.__struct_fields__)

_HINTS: Final = get_type_hints(Settings, include_extras=True)


def describe(name: str) -> str:
    """Returns what a setting does, in a sentence."""
    for note in _HINTS[name].__metadata__:
        if isinstance(note, Meta) and note.description:
            return str(note.description)
    return ""


def read_settings(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = SETTINGS_FILE,
) -> Settings:
    """Puts the settings together; a flag that is None was not given."""
    chosen: dict[str, Any] = {}
    for name, value in _read_file(file).items():
        if name not in SETTING_NAMES:
            raise Invalid(f"there is no setting {name!r} (in {file})")
        chosen[name] = _convert(name, value, str(file))
    for name in SETTING_NAMES:
        variable = ENVIRONMENT_PREFIX + name.upper()
        text = (environment or {}).get(variable)
        if text is not None:
            chosen[name] = _convert(name, text, variable)
    for name, value in (flags or {}).items():
        if value is not None:
            if name not in SETTING_NAMES:
                raise Invalid(f"there is no setting {name!r}")
            chosen[name] = _convert(name, value, "--" + name.replace("_", "-"))
    settings = Settings(**chosen)
    if settings.retry_sleep_low_ms > settings.retry_sleep_high_ms:
        raise Invalid("the setting retry_sleep_low_ms is at most retry_sleep_high_ms")
    if settings.files_port and settings.files_port == settings.port:
        raise Invalid("the settings port and files_port name two different ports")
    return settings


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"the settings in {file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{file} is not TOML: {error}") from None


def _convert(name: str, value: object, source: str) -> Any:
    """Checks one value; texts are read as numbers, truth values and, with commas, as lists."""
    value_type = _HINTS[name]
    if isinstance(value, str) and name == "host_names":
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, value_type, strict=False)
    except msgspec.ValidationError as error:
        shown = "" if name == "store" else f"{value!r} "
        raise Invalid(f"the setting {name} cannot be {shown}(from {source}): {error}") from None
