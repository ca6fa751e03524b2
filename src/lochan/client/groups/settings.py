"""The methods of the settings that a repository keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lochan.client.methods import Group, Runner, request_method
from lochan.model.requests import GetSettingsRequest, UpdateSettingsRequest


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
