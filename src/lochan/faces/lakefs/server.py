"""The handlers about the server: its state, who calls, users and their credentials."""

from __future__ import annotations

from typing import Any, Final

from lochan.base.errors import NotFound
from lochan.faces.access.handlers import is_direct
from lochan.faces.calls import server_call
from lochan.faces.lakefs.answers import NO_CONTENT, answer, secret_answer
from lochan.faces.lakefs.params import page_of
from lochan.faces.params import Handlers
from lochan.model.access import AccessKey, User
from lochan.service.access import AccessControl
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import (
    CredentialsJson,
    CurrentUserJson,
    KeyIn,
    LakefsSetupIn,
    LakefsTokenJson,
    LakefsUserJson,
    UserIn,
    page_out,
    seconds,
)

VERSION: Final = "1.84.0"
"""The version of lakeFS whose API this is: clients choose by it what they may use."""

_read_setup: Final = Reader(LakefsSetupIn)
_read_login: Final = Reader(KeyIn)
_read_user: Final = Reader(UserIn)

# What clients look at before access is set up.
_ANYONE: Final = "anyone"


def health(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Returns that the server answers."""
    return NO_CONTENT


def capabilities(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Returns that users cannot be invited by mail."""
    return answer({"invite_user": False, "forgot_password": False})


def config(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Returns what the server is and where it keeps objects."""
    return answer(
        {
            "version_config": _version(),
            "storage_config": _storage(),
            "storage_config_list": [],
            "ui_config": {},
            "capabilities_config": {"async_ops": False},
        }
    )


def version(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Returns which lakeFS's API this is."""
    return answer(_version())


def storage(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Returns where objects are kept."""
    return answer(_storage())


def collection(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Returns how long a collector leaves new objects alone."""
    return answer({"grace_period": 24 * 3_600})


def _version() -> dict[str, Any]:
    return {
        "version": VERSION,
        "version_context": "lochan",
        "latest_version": VERSION,
        "upgrade_recommended": False,
        "upgrade_url": "",
    }


def _storage() -> dict[str, Any]:
    return {
        "blockstore_type": "local",
        "blockstore_namespace_example": "local://example-repository/",
        "blockstore_namespace_ValidityRegex": "^(local|s3)://",
        "default_namespace_prefix": "local://data",
        "pre_sign_support": False,
        "pre_sign_support_ui": False,
        "pre_sign_multipart_upload": False,
        "import_support": True,
        "import_validity_regex": "^(local|s3|file)://",
        "blockstore_id": "",
        "blockstore_description": "",
    }


def user_out(user: User) -> LakefsUserJson:
    """Returns a user."""
    return LakefsUserJson(user.id, seconds(user.created_us))


def key_out(key: AccessKey, secret: str | None = None) -> CredentialsJson:
    """Returns an access key."""
    return CredentialsJson(key.id, seconds(key.created_us), secret)


class ServerHandlers:
    """The handlers that need the users of the server."""

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def bound(self) -> Handlers:
        """Returns the handler of each operation."""
        handlers = {
            "healthCheck": health,
            "getSetupState": self.state,
            "setup": self.set_up,
            "login": self.login,
            "getAuthCapabilities": capabilities,
            "getCurrentUser": self.who,
            "getConfig": config,
            "getLakeFSVersion": version,
            "getStorageConfig": storage,
            "getGarbageCollectionConfig": collection,
            "postStatsEvents": health,
            "listUsers": self.list_users,
            "createUser": self.create_user,
            "getUser": self.get_user,
            "deleteUser": self.delete_user,
            "listUserCredentials": self.list_keys,
            "createCredentials": self.create_key,
            "getCredentials": self.get_key,
            "deleteCredentials": self.delete_key,
        }
        return {f"lakefs.{name}": (handler, True) for name, handler in handlers.items()}

    def state(self, exchange: Exchange) -> Response:
        """Returns whether the first user was made."""
        is_set_up = self._access.status(server_call(exchange)).is_set_up
        state = "initialized" if is_set_up else "not_initialized"
        login = {"RBAC": "none", "login_url": "", "logout_url": "", "login_cookie_names": []}
        return answer({"state": state, "comm_prefs_missing": False, "login_config": login})

    def set_up(self, exchange: Exchange) -> Response:
        """Makes the first user and its access key; refused to browsers and through proxies."""
        direct = is_direct(exchange)
        # What is refused is not read.
        body = LakefsSetupIn("refused")
        if direct:
            body = _read_setup(exchange.request.body)
        chosen = None
        if body.key is not None:
            chosen = (body.key.access_key_id, body.key.secret_access_key)
        call = server_call(exchange)
        made = self._access.set_up_key(call, body.username, chosen, is_direct=direct)
        return secret_answer(key_out(made.key, made.secret))

    def login(self, exchange: Exchange) -> Response:
        """Exchanges an access key for a short-lived token."""
        body: KeyIn = _read_login(exchange.request.body)
        made = self._access.login(server_call(exchange), body.access_key_id, body.secret_access_key)
        return secret_answer(LakefsTokenJson(made.secret, seconds(made.expires_us)))

    def who(self, exchange: Exchange) -> Response:
        """Returns who calls."""
        found = self._access.whoami(server_call(exchange))
        return answer(CurrentUserJson(LakefsUserJson(found.name or _ANYONE, 0)))

    def list_users(self, exchange: Exchange) -> Response:
        """Lists users."""
        page = page_of(exchange)
        found = self._access.list_users(server_call(exchange), page.amount, page.after or None)
        users = [user_out(one) for one in found.items if one.id.startswith(page.prefix)]
        last = found.items[-1].id if found.items else ""
        return answer(page_out(users, last, has_more=found.token is not None))

    def create_user(self, exchange: Exchange) -> Response:
        """Creates a user."""
        body: UserIn = _read_user(exchange.request.body)
        return answer(user_out(self._access.create_user(server_call(exchange), body.id)), 201)

    def get_user(self, exchange: Exchange) -> Response:
        """Returns a user."""
        found = self._access.get_user(server_call(exchange), exchange.params["user"])
        return answer(user_out(found))

    def delete_user(self, exchange: Exchange) -> Response:
        """Deletes a user."""
        self._access.delete_user(server_call(exchange), exchange.params["user"])
        return NO_CONTENT

    def list_keys(self, exchange: Exchange) -> Response:
        """Lists the access keys of a user."""
        page, user = page_of(exchange), exchange.params["user"]
        found = self._access.list_access_keys(
            server_call(exchange), user, page.amount, page.after or None
        )
        keys = [key_out(one) for one in found.items if one.id.startswith(page.prefix)]
        last = found.items[-1].id if found.items else ""
        return answer(page_out(keys, last, has_more=found.token is not None))

    def create_key(self, exchange: Exchange) -> Response:
        """Creates an access key of a user."""
        made = self._access.create_access_key(server_call(exchange), exchange.params["user"])
        return secret_answer(key_out(made.key, made.secret), 201)

    def get_key(self, exchange: Exchange) -> Response:
        """Returns an access key of a user."""
        return answer(key_out(self._find_key(exchange)))

    def delete_key(self, exchange: Exchange) -> Response:
        """Deletes an access key of a user."""
        key = self._find_key(exchange)
        self._access.delete_access_key(server_call(exchange), key.id)
        return NO_CONTENT

    def _find_key(self, exchange: Exchange) -> AccessKey:
        user, wanted = exchange.params["user"], exchange.params["key"]
        token: str | None = None
        while True:
            page = self._access.list_access_keys(server_call(exchange), user, None, token)
            for one in page.items:
                if one.id == wanted:
                    return one
            token = page.token
            if token is None:
                raise NotFound("credentials: not found")
