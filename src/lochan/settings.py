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

from lochan.base.errors import Invalid, InvalidUrl
from lochan.base.limits.commits import COMMIT_TIMEOUT_MS, RETRY_SLEEP_FIRST_MS, RETRY_SLEEP_MAX_MS
from lochan.base.limits.http import HTTP_BODY_BYTES_MAX
from lochan.base.limits.quotas import (
    PRINCIPAL_REQUESTS_CEILING,
    PRINCIPAL_REQUESTS_MAX,
    REPOSITORY_REQUESTS_MAX,
)
from lochan.base.limits.server import DRAIN_TIMEOUT_S
from lochan.base.limits.storage import CACHE_BYTES_MAX
from lochan.base.secrets import MASK, Secret
from lochan.kv.url import parse_store_url

ENVIRONMENT_PREFIX: Final = "LOCHAN_"
SETTINGS_FILE: Final = Path("lochan.toml")

_MB: Final = 1_024 * 1_024


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that an operator may choose; `docs/settings.md` lists it."""

    store: Annotated[str, Meta(description="Where everything is kept.")] = "rocksdb:.lochan/store"
    data: Annotated[
        str,
        Meta(
            description="The directory for the bytes of files; empty is beside an embedded store."
        ),
    ] = ""
    storage: Annotated[
        str,
        Meta(
            description="Where the bytes of files of the repository are kept if it is made, such "
            "as s3://bucket/prefix; empty is the data directory."
        ),
    ] = ""
    storage_prefixes: Annotated[
        tuple[str, ...],
        Meta(
            description="Places below which users may put the files of repositories that they "
            "create; the data directory and `storage` are such places."
        ),
    ] = ()
    subscribers: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="Subscribers that get the events of this server: a table for each, as "
            "JSON in the environment and in a flag."
        ),
    ] = msgspec.field(default_factory=dict)
    import_prefixes: Annotated[
        tuple[str, ...],
        Meta(description="Prefixes of object stores whose objects users may import as files."),
    ] = ()
    host: Annotated[
        str,
        Meta(description="The address to listen on; others than loopback need users and TLS."),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535, description="The port to listen on; 0 takes a free one.")
    ] = 19120
    host_names: Annotated[
        tuple[str, ...], Meta(description="Further names that clients may use in the Host header.")
    ] = ()
    files_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65_535,
            description="A second port, for clients of lakeFS and of S3; 0 is off.",
        ),
    ] = 0
    s3_domains: Annotated[
        tuple[str, ...],
        Meta(description="Domains of which each name below is a repository, on that port."),
    ] = ("localhost",)
    unix_socket: Annotated[
        str, Meta(description="The path of a Unix socket that serves the same as the port.")
    ] = ""
    tls_certificate: Annotated[
        str, Meta(description="A file with the certificate chain, in PEM form; turns TLS on.")
    ] = ""
    tls_key: Annotated[
        str, Meta(description="A file with the key of the certificate, without a password.")
    ] = ""
    insecure_remote: Annotated[
        bool,
        Meta(
            description="Serves other machines without authentication or TLS, so that any of them "
            "may read and change everything, or read tokens on their way."
        ),
    ] = False
    secret_key_file: Annotated[
        str,
        Meta(description="A file with the keys of the servers, one on a line; the first seals."),
    ] = ""
    secret_key: Annotated[
        Secret, Meta(description="The same keys, with commas; not as a flag, which others can see.")
    ] = Secret("")
    setup_user: Annotated[
        str, Meta(description="The first user, made when the server starts and there is none.")
    ] = ""
    setup_token_file: Annotated[
        str, Meta(description="The file with the first user's token; made if it is missing.")
    ] = ""
    oidc_issuer: Annotated[
        str, Meta(description="The OpenID Connect issuer whose tokens are accepted; empty is none.")
    ] = ""
    oidc_audience: Annotated[
        str, Meta(description="The audience that its tokens must be made out for.")
    ] = ""
    oidc_jwks: Annotated[
        str, Meta(description="Its signing keys: a file, or an https address.")
    ] = ""
    oidc_algorithms: Annotated[
        tuple[str, ...], Meta(description="The signature algorithms that are accepted.")
    ] = ("RS256", "ES256")
    oidc_user_claim: Annotated[str, Meta(description="The claim with the name of the user.")] = (
        "sub"
    )
    oidc_roles_claim: Annotated[
        str, Meta(description="The claim with the roles of the user; empty is none.")
    ] = ""
    audit_log: Annotated[
        Literal["off", "denied", "writes", "all"],
        Meta(description="Which decisions are written to the audit log; each includes the former."),
    ] = "off"
    audit_file: Annotated[
        str, Meta(description="The file of the audit log; empty is standard error.")
    ] = ""
    principal_requests_max: Annotated[
        int,
        Meta(
            ge=1,
            le=PRINCIPAL_REQUESTS_CEILING,
            description="Requests of one user that are served at once; more wait.",
        ),
    ] = PRINCIPAL_REQUESTS_MAX
    principal_requests_per_s: Annotated[
        float,
        Meta(ge=0, le=1_000_000, description="Requests of one user in a second; 0 is no limit."),
    ] = 0.0
    repository_requests_max: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Requests of users to one repository that are served at once; more wait.",
        ),
    ] = REPOSITORY_REQUESTS_MAX
    request_bytes_max: Annotated[
        int,
        Meta(
            ge=1_024,
            le=HTTP_BODY_BYTES_MAX,
            description="The longest body of a request, but for the bytes of files.",
        ),
    ] = HTTP_BODY_BYTES_MAX
    branches_max: Annotated[
        int,
        Meta(ge=0, description="Branches that a repository may have; 0 is no limit."),
    ] = 0
    branch_ttl_max_s: Annotated[
        int,
        Meta(ge=0, description="The longest time that a new branch may live; 0 is no limit."),
    ] = 0
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

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self.__rich_repr__()]
        return f"Settings({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Returns all settings with their values, secrets and passwords masked."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        found["store"] = _masked_store(self.store)
        found["storage"] = _masked_store(self.storage) if self.storage else ""
        found["storage_prefixes"] = tuple(_masked_store(one) for one in self.storage_prefixes)
        # Addresses of receivers may have secrets in any place.
        found["subscribers"] = dict.fromkeys(self.subscribers, MASK)
        return list(found.items())


SETTING_NAMES: Final = tuple(Settings.__struct_fields__)

SECRET_SETTINGS: Final = ("secret_key",)
"""Settings that are no flags, because other users of a machine see the arguments of a process."""

_LISTS: Final = (
    "host_names",
    "import_prefixes",
    "oidc_algorithms",
    "s3_domains",
    "storage_prefixes",
)
_TABLES: Final = ("subscribers",)
_NEVER_SHOWN: Final = ("store", "storage", "storage_prefixes", *_TABLES, *SECRET_SETTINGS)

_HINTS: Final = get_type_hints(Settings, include_extras=True)


def _masked_store(store: str) -> str:
    try:
        return str(parse_store_url(store))
    except InvalidUrl:
        return MASK


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
    _check_together(settings)
    return settings


def _check_together(settings: Settings) -> None:
    """Refuses settings that do not fit each other."""
    if settings.retry_sleep_low_ms > settings.retry_sleep_high_ms:
        raise Invalid("the setting retry_sleep_low_ms is at most retry_sleep_high_ms")
    if settings.files_port and settings.files_port == settings.port:
        raise Invalid("the settings port and files_port name two different ports")
    for place in (settings.storage, *settings.storage_prefixes):
        if place:
            parse_store_url(place)
    if settings.secret_key and settings.secret_key_file:
        raise Invalid("the keys of the servers come from secret_key or secret_key_file, not both")
    if bool(settings.setup_user) != bool(settings.setup_token_file):
        raise Invalid("setup_user and setup_token_file are set together: the token needs a place")
    oidc = {
        name: bool(getattr(settings, name))
        for name in ("oidc_issuer", "oidc_audience", "oidc_jwks")
    }
    if any(oidc.values()) and not all(oidc.values()):
        missing = ", ".join(name for name, given in oidc.items() if not given)
        raise Invalid(
            f"tokens of an issuer need oidc_issuer, oidc_audience and oidc_jwks; missing: {missing}"
        )
    if settings.audit_file and settings.audit_log == "off":
        raise Invalid("the setting audit_file needs audit_log, which is off")


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
    if name in SECRET_SETTINGS:
        if not isinstance(value, str | Secret):
            raise Invalid(f"the setting {name} is a text (from {source})")
        return value if isinstance(value, Secret) else Secret(value)
    if isinstance(value, str) and name in _LISTS:
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, str) and name in _TABLES:
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise Invalid(f"the setting {name} is a JSON object (from {source}): {error}") from None
    try:
        return msgspec.convert(value, value_type, strict=False)
    except msgspec.ValidationError as error:
        shown = "" if name in _NEVER_SHOWN else f"{value!r} "
        raise Invalid(f"the setting {name} cannot be {shown}(from {source}): {error}") from None
