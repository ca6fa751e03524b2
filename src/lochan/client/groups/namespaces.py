"""The methods of namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lochan.client.methods import Group, Runner, request_method
from lochan.model.commits import ContentKey, content_key
from lochan.model.contents import Namespace
from lochan.model.requests import (
    DEFAULT_BRANCH,
    CreateNamespaceRequest,
    DeleteNamespaceRequest,
    GetNamespaceRequest,
    ListNamespacesRequest,
    UpdateNamespaceRequest,
)
from lochan.model.specs import parse_name, parse_spec


class Namespaces(Group[Runner]):
    """Namespaces, which must exist for keys below them."""

    @request_method
    def get(self, spec: str, elements: ContentKey) -> GetNamespaceRequest:
        """Returns a namespace; NamespaceNotFound if there is none."""
        return GetNamespaceRequest(spec=parse_spec(spec), elements=content_key(elements))

    @request_method
    def list(self, spec: str = DEFAULT_BRANCH, prefix: ContentKey = ()) -> ListNamespacesRequest:
        """Returns the namespaces that start with the prefix."""
        return ListNamespacesRequest(spec=parse_spec(spec), prefix=tuple(prefix))

    @request_method
    def create(
        self, branch: str, elements: ContentKey, properties: Mapping[str, str] | None = None
    ) -> CreateNamespaceRequest:
        """Creates a namespace, in a commit of its own."""
        namespace = Namespace(elements=content_key(elements), properties=dict(properties or {}))
        return CreateNamespaceRequest(branch=parse_name(branch), namespace=namespace)

    @request_method
    def delete(self, branch: str, elements: ContentKey) -> DeleteNamespaceRequest:
        """Deletes an empty namespace, in a commit of its own."""
        return DeleteNamespaceRequest(branch=parse_name(branch), elements=content_key(elements))

    @request_method
    def update(
        self,
        branch: str,
        elements: ContentKey,
        updates: Mapping[str, str] | None = None,
        removals: Sequence[str] = (),
    ) -> UpdateNamespaceRequest:
        """Changes the properties of a namespace, in a commit of its own."""
        return UpdateNamespaceRequest(
            branch=parse_name(branch),
            elements=content_key(elements),
            updates=dict(updates or {}),
            removals=frozenset(removals),
        )
