"""The methods of keys, their contents and namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.client.methods import Group, Runner, page_iterator, request_method
from lochan.model.commits import ContentKey, content_key
from lochan.model.contents import Namespace
from lochan.model.requests import (
    DEFAULT_BRANCH,
    CreateNamespaceRequest,
    DeleteNamespaceRequest,
    FindJobsRequest,
    GetContentRequest,
    GetContentsRequest,
    GetNamespaceRequest,
    ListEntriesRequest,
    ListJobsRequest,
    ListNamespacesRequest,
    UpdateNamespaceRequest,
)
from lochan.model.specs import parse_name, parse_spec


class Contents(Group[Runner]):
    """Keys and their contents."""

    @request_method
    def entries(
        self,
        spec: str = DEFAULT_BRANCH,
        limit: int | None = None,
        token: str | None = None,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        with_content: bool = False,
    ) -> ListEntriesRequest:
        """Returns a page of keys, in their order."""
        return ListEntriesRequest(
            spec=parse_spec(spec),
            limit=limit,
            token=token,
            keys=tuple(tuple(key) for key in keys),
            start=start,
            end=end,
            prefix=prefix,
            filter=filter,
            with_content=with_content,
        )

    @page_iterator
    def iterate(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        with_content: bool = False,
    ) -> ListEntriesRequest:
        """Yields all keys, as they were when the first page was read."""
        return ListEntriesRequest(
            spec=parse_spec(spec),
            limit=PAGE_ENTRIES_MAX,
            keys=tuple(tuple(key) for key in keys),
            start=start,
            end=end,
            prefix=prefix,
            filter=filter,
            with_content=with_content,
        )

    @request_method
    def get(self, spec: str, key: ContentKey) -> GetContentRequest:
        """Returns the content of a key, and where it was read; ContentNotFound if it has none."""
        return GetContentRequest(spec=parse_spec(spec), key=content_key(key))

    @request_method
    def get_many(self, spec: str, keys: Sequence[ContentKey]) -> GetContentsRequest:
        """Returns the contents of those keys that have one, and where they were read."""
        return GetContentsRequest(
            spec=parse_spec(spec), keys=tuple(content_key(key) for key in keys)
        )

    @request_method
    def find_jobs(self, spec: str, key: ContentKey, jobs: Sequence[str]) -> FindJobsRequest:
        """Returns the records of those jobs that have written the content of a key."""
        return FindJobsRequest(spec=parse_spec(spec), key=content_key(key), jobs=tuple(jobs))

    @request_method
    def jobs(
        self,
        spec: str,
        key: ContentKey,
        limit: int | None = None,
        token: str | None = None,
        *,
        start: str = "",
        prefix: str = "",
    ) -> ListJobsRequest:
        """Returns a page of the jobs that have written the content of a key, in order of names."""
        return ListJobsRequest(
            spec=parse_spec(spec),
            key=content_key(key),
            limit=limit,
            token=token,
            start=start,
            prefix=prefix,
        )


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
