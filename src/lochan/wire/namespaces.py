"""Namespaces of version 1 on the wire."""

from __future__ import annotations

import msgspec

from lochan.model.contents import Namespace


class NamespacesV1(msgspec.Struct, frozen=True):
    """Namespaces below another."""

    namespaces: tuple[Namespace, ...]


class NamespaceUpdateIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Properties to set and to remove."""

    property_updates: dict[str, str] | None = None
    property_removals: frozenset[str] | None = None
