"""All methods of a repository, in groups.

Each method builds one request; the runner of its group runs it (see `client/methods.py`). So the
blocking client, the asynchronous client and the embedded repository have the same methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lochan.client.groups.access import AccessMethods
from lochan.client.groups.changes import Commits, Merges
from lochan.client.groups.contents import Contents, Namespaces
from lochan.client.groups.files import FileMethods
from lochan.client.groups.references import History, References
from lochan.client.groups.stores import StoreMethods
from lochan.client.methods import Group, Runner, request_method
from lochan.model.requests import GetSettingsRequest, RepositoryInfoRequest, UpdateSettingsRequest


class RepositorySettings(Group[Runner]):
    """Settings that a repository keeps for tools, such as the garbage collector's rules."""

    @request_method
    def get(self, types: Sequence[str] = ("GARBAGE_COLLECTOR",)) -> GetSettingsRequest:
        """Returns the settings of those of these types that were set."""
        return GetSettingsRequest(types=tuple(types))

    @request_method
    def update(self, config: Mapping[str, Any]) -> UpdateSettingsRequest:
        """Replaces the settings of one type; returns what they were."""
        return UpdateSettingsRequest(config=dict(config))


class RepositoryGroups(Group[Runner]):
    """All groups of one repository."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.references: References[Runner] = References(runner)
        self.contents: Contents[Runner] = Contents(runner)
        self.history: History[Runner] = History(runner)
        self.commits: Commits[Runner] = Commits(runner)
        self.merges: Merges[Runner] = Merges(runner)
        self.files: FileMethods[Runner] = FileMethods(runner)
        self.namespaces: Namespaces[Runner] = Namespaces(runner)
        self.settings: RepositorySettings[Runner] = RepositorySettings(runner)
        self.access: AccessMethods[Runner] = AccessMethods(runner)
        self.store: StoreMethods[Runner] = StoreMethods(runner)

    @request_method
    def config(self) -> RepositoryInfoRequest:
        """Returns what the repository states about itself."""
        return RepositoryInfoRequest()
