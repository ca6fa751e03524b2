"""The repositories of one store: opened once and kept open, created, listed."""

from __future__ import annotations

from typing import Final

from lochan.access.policy import Action, Call, OpenPolicy, Policy, Resource
from lochan.base.errors import AlreadyExists, Invalid, NotFound, Unknown
from lochan.base.ids import ROOT_INSTANCE
from lochan.base.limits.files import STORAGE_URL_CHARACTERS_MAX
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.limits.server import REPOSITORIES_OPEN_MAX
from lochan.base.names import known_name, ref_name
from lochan.catalog.types import ContentTypes
from lochan.kernel.claims import KeyedRequest, check_same
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.repository import (
    REPOSITORIES_PLACE,
    Ports,
    create_repository,
    delete_repository,
    list_repositories,
    open_repository,
    read_instance,
)
from lochan.kv.store import Store
from lochan.model.results import Page
from lochan.persist.claims import Claim, ClaimRows, claim_key
from lochan.persist.retry import Retry
from lochan.service.claims import check_key
from lochan.service.file_places import NO_PLACES, FileSupport
from lochan.service.policy import initiator_of
from lochan.service.quotas import NO_QUOTA, ReferenceQuota
from lochan.service.repository import Repository

_OPEN_ATTEMPTS_MAX: Final = 3

# On the port for files the first segment of a path is a repository, and this one is an API.
_RESERVED: Final = "api"


class Repositories:
    """Opens, creates and lists repositories; for any number of threads.

    Repositories that are used stay open, up to a limit: in two generations, of which the older is
    dropped when the younger is full. Dropping one loses nothing but its cached entries.
    """

    def __init__(
        self,
        store: Store,
        ports: Ports,
        types: ContentTypes | None = None,
        policy: Policy | None = None,
        *,
        open_max: int = REPOSITORIES_OPEN_MAX,
        tuning: Tuning | None = None,
        quota: ReferenceQuota = NO_QUOTA,
        files: FileSupport = NO_PLACES,
    ) -> None:
        self.store = self._store = store
        self.clock = ports.clock
        self.ports = self._ports = ports
        self._tuning = tuning or Tuning()
        self._types = types
        self._policy = policy or OpenPolicy()
        self._quota = quota
        self._files = files
        self._half = max(open_max // 2, 1)
        self._young: dict[str, Repository] = {}
        self._old: dict[str, Repository] = {}

    def open(self, name: str) -> Repository:
        """Returns a repository, from memory if it is open already; NotFound if there is none."""
        found = self._young.get(name)
        if found is not None:
            return found
        found = self._old.get(name)
        if found is None:
            known_name(name)
            found = self._open_anew(name)
        return self._keep(found)

    def look_into(self, name: str) -> Repository:
        """Returns a repository for a short use: the open one, or a new one for the caller.

        It changes nothing about which repositories are kept open.
        """
        found = self._young.get(name) or self._old.get(name)
        return found or self._open_anew(name)

    def list_open(self) -> list[Repository]:
        """Returns the repositories that are open."""
        return list({**self._old, **self._young}.values())

    def create(
        self, call: Call, name: str, default_branch: str = "main", storage: str = ""
    ) -> Repository:
        """Creates a repository with an empty default branch; AlreadyExists if the name is taken.

        `storage` is the URL of the place for the bytes of its files, which stays as it is; without
        one they are at the default place of its servers.
        With an idempotency key it is created once, and the same request sent again returns it.
        """
        self._policy.decide(call, Action.CREATE_REPOSITORY, Resource(name))
        if len(storage) > STORAGE_URL_CHARACTERS_MAX or not storage.isprintable():
            raise Invalid(
                f"a storage place is a URL of at most {STORAGE_URL_CHARACTERS_MAX} characters"
            )
        self._files.check_place(storage)
        if name == _RESERVED:
            raise Invalid(f"a repository cannot have the name {name!r}: addresses begin with it")
        operation = self._claim(call, name)
        if operation:
            earlier = self._find_created(name, operation)
            if earlier is not None:
                return earlier
        try:
            made = create_repository(
                self._store,
                self._ports,
                name,
                default_branch,
                self._tuning,
                operation,
                initiator_of(call),
                storage,
            )
        except AlreadyExists:
            earlier = self._find_created(name, operation) if operation else None
            if earlier is None:
                raise
            return earlier
        return self._keep(self._use_cases(made))

    def delete(self, call: Call, name: str) -> None:
        """Deletes a repository with everything in it; NotFound if there is none.

        Its name is free afterwards. Other servers of the store notice it by `drop_deleted`; until
        then they answer for it from what they have open.
        """
        self._policy.decide(call, Action.DELETE_REPOSITORY, Resource(name))
        known_name(name)
        delete_repository(self._open_anew(name).context)
        self._forget(name)

    def drop_deleted(self) -> None:
        """Closes open repositories that were deleted, or whose name is that of another one now."""
        opened = {one.name: one for one in self.list_open()}
        names = list(opened)
        rows = self._store.get_many([(REPOSITORIES_PLACE, name.encode()) for name in names])
        for name, listed in zip(names, rows, strict=True):
            if listed is None or read_instance(listed) != opened[name].context.instance:
                self._forget(name)

    def _forget(self, name: str) -> None:
        self._young.pop(name, None)
        self._old.pop(name, None)

    def _claim(self, call: Call, name: str) -> bytes:
        """Claims the key of a request to create a repository; returns its operation id, if any.

        The claim has no incarnation: a repository that was deleted is created again by a request
        with another key.
        """
        key = call.idempotency_key
        if key is None:
            return b""
        check_key(key)
        ref_name(name)
        right = Action.CREATE_REPOSITORY.value
        request = KeyedRequest(call.principal, key, call.digest, right, name)
        ports = self._ports
        operation = ports.random.random_bytes(16)
        now_us = ports.clock.now_us()
        row_key = claim_key(call.principal, key)
        wanted = Claim(1, row_key, call.digest, right, name, "", 0, 0, 0, operation, now_us)
        rows = ClaimRows(self._store, ROOT_INSTANCE)
        retry = Retry(ports.clock, ports.random, ports.waiting, self._tuning.retry_policy)
        return check_same(rows.add(wanted, retry), request).operation

    def _find_created(self, name: str, operation: bytes) -> Repository | None:
        try:
            found = self.open(name)
        except NotFound:
            return None
        return found if found.context.description.operation == operation else None

    def open_or_create(self, call: Call, name: str, storage: str = "") -> Repository:
        """Opens a repository, and creates it if there is none; two callers may do so at once."""
        for _ in range(_OPEN_ATTEMPTS_MAX - 1):
            try:
                return self.open(name)
            except NotFound:
                pass
            try:
                return self.create(call, name, storage=storage)
            except (AlreadyExists, Unknown):
                # Another caller was first, or this call has created it: it exists now.
                pass
        return self.open(name)

    def names(
        self,
        call: Call,
        limit: int | None = None,
        token: str | None = None,
        *,
        prefix: str = "",
        after: str = "",
    ) -> Page[str]:
        """Returns names of repositories in order; the token of a page is where the next begins.

        Repositories that look absent to the caller are left out. However many they are, the names
        are read on to the next that is shown: a token is the name of one that the caller sees.
        """
        self._policy.decide(call, Action.LIST_REPOSITORIES, Resource(""))
        if limit is not None and limit < 1:
            raise Invalid(f"a page has at least one entry, not {limit}")
        count = PAGE_ENTRIES_MAX if limit is None else min(limit, PAGE_ENTRIES_MAX)
        start, step = "" if token is None else known_name(token), count + 1
        start = max(start, prefix, after + "\0" if after else "")
        found: list[str] = []
        while len(found) <= count:
            listed = [name for name, _ in list_repositories(self._store, start, step)]
            names = [name for name in listed if name.startswith(prefix)]
            found += [name for name in names if self._policy.sees(call, name)]
            if len(listed) < step or len(names) < len(listed):
                break
            start, step = names[-1] + "\0", PAGE_ENTRIES_MAX
        return Page(tuple(found[:count]), found[count] if len(found) > count else None)

    def _open_anew(self, name: str) -> Repository:
        return self._use_cases(open_repository(self._store, self._ports, name, self._tuning))

    def _use_cases(self, context: RepositoryContext) -> Repository:
        return Repository(context, self._types, self._policy, self._quota, self._files)

    def _keep(self, repository: Repository) -> Repository:
        """Keeps a repository open; of two that were opened at once, one is used by all."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        return self._young.setdefault(repository.name, repository)
