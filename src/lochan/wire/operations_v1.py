"""The operations of version 1."""

from __future__ import annotations

from typing import Final

from lochan.model.contents import Namespace
from lochan.wire.commits import CommitBody, LogV1
from lochan.wire.config import ConfigV1
from lochan.wire.contents import ContentJson
from lochan.wire.listings import ContentsRequest, ContentsV1, DiffV1, EntriesV1
from lochan.wire.merges import MergeBody, MergeV1, TransplantBody
from lochan.wire.namespaces import NamespacesV1, NamespaceUpdateIn
from lochan.wire.operations import Operation
from lochan.wire.references import ReferenceIn, ReferencesV1, ReferenceV1

_PAGE: Final = ("maxRecords", "pageToken")
_WRITE: Final = ("expectedHash", "If-Match", "Idempotency-Key")
_NAMESPACE: Final = ("v1-ref", "v1-namespace")

OPERATIONS_V1: Final = (
    Operation(
        id="getConfigV1",
        method="GET",
        path="/config",
        about="What clients must know of the server.",
        response=ConfigV1,
    ),
    Operation(
        id="getAllReferencesV1",
        method="GET",
        path="/trees",
        about="Lists branches and tags.",
        parameters=("fetch", "filter", *_PAGE),
        response=ReferencesV1,
    ),
    Operation(
        id="getDefaultBranchV1",
        method="GET",
        path="/trees/tree",
        about="Reads the default branch.",
        response=ReferenceV1,
    ),
    Operation(
        id="createReferenceV1",
        method="POST",
        path="/trees/tree",
        about="Creates a branch or a tag from another reference at a hash.",
        parameters=("sourceRefName", "Idempotency-Key"),
        request=ReferenceIn,
        response=ReferenceV1,
    ),
    Operation(
        id="getReferenceByNameV1",
        method="GET",
        path="/trees/tree/{ref}",
        about="Reads one reference.",
        parameters=("v1-ref", "fetch"),
        response=ReferenceV1,
    ),
    Operation(
        id="getEntriesV1",
        method="GET",
        path="/trees/tree/{ref}/entries",
        about="Lists keys and the types of what they hold.",
        parameters=("v1-ref", "hashOnRef", "namespaceDepth", "filter", *_PAGE),
        response=EntriesV1,
    ),
    Operation(
        id="getCommitLogV1",
        method="GET",
        path="/trees/tree/{ref}/log",
        about="Reads commits from newest to oldest.",
        parameters=("v1-ref", "startHash", "endHash", "filter", "fetch", *_PAGE),
        response=LogV1,
    ),
    Operation(
        id="assignReferenceV1",
        method="PUT",
        path="/trees/{type}/{name}",
        about="Points a branch or a tag to another commit.",
        parameters=("v1-kind", "v1-name", *_WRITE),
        request=ReferenceIn,
        status=204,
    ),
    Operation(
        id="deleteReferenceV1",
        method="DELETE",
        path="/trees/{type}/{name}",
        about="Deletes a branch or a tag.",
        parameters=("v1-kind", "v1-name", *_WRITE),
        status=204,
    ),
    Operation(
        id="commitV1",
        method="POST",
        path="/trees/branch/{branch}/commit",
        about="Commits operations to a branch.",
        parameters=("v1-branch", *_WRITE),
        request=CommitBody,
        response=ReferenceV1,
    ),
    Operation(
        id="mergeV1",
        method="POST",
        path="/trees/branch/{branch}/merge",
        about="Merges a reference into a branch.",
        parameters=("v1-branch", *_WRITE),
        request=MergeBody,
        response=MergeV1,
    ),
    Operation(
        id="transplantV1",
        method="POST",
        path="/trees/branch/{branch}/transplant",
        about="Makes commits of a reference again on a branch.",
        parameters=("v1-branch", "message", *_WRITE),
        request=TransplantBody,
        response=MergeV1,
    ),
    Operation(
        id="getContentV1",
        method="GET",
        path="/contents/{key}",
        about="Reads one content.",
        parameters=("content-key", "v1-contents-ref", "hashOnRef"),
        response=ContentJson,
    ),
    Operation(
        id="getMultipleContentsV1",
        method="POST",
        path="/contents",
        about="Reads the contents of keys that the body names.",
        parameters=("v1-contents-ref", "hashOnRef"),
        request=ContentsRequest,
        response=ContentsV1,
    ),
    Operation(
        id="getDiffV1",
        method="GET",
        path="/diffs/{from}...{to}",
        about="Reads what differs between two references.",
        parameters=("v1-from", "v1-to"),
        response=DiffV1,
    ),
    Operation(
        id="getNamespacesV1",
        method="GET",
        path="/namespaces/{ref}",
        about="Lists namespaces, those below another if one is named.",
        parameters=("v1-ref", "v1-below", "hashOnRef"),
        response=NamespacesV1,
    ),
    Operation(
        id="getNamespaceV1",
        method="GET",
        path="/namespaces/namespace/{ref}/{name}",
        about="Reads one namespace.",
        parameters=(*_NAMESPACE, "hashOnRef"),
        response=Namespace,
    ),
    Operation(
        id="createNamespaceV1",
        method="PUT",
        path="/namespaces/namespace/{ref}/{name}",
        about="Creates a namespace.",
        parameters=(*_NAMESPACE, "Idempotency-Key"),
        request=Namespace,
        request_needed=False,
        response=Namespace,
    ),
    Operation(
        id="deleteNamespaceV1",
        method="DELETE",
        path="/namespaces/namespace/{ref}/{name}",
        about="Deletes a namespace that holds nothing.",
        parameters=(*_NAMESPACE, "Idempotency-Key"),
        status=204,
    ),
    Operation(
        id="updateNamespaceV1",
        method="POST",
        path="/namespaces/namespace/{ref}/{name}",
        about="Sets and takes away properties of a namespace.",
        parameters=(*_NAMESPACE, "Idempotency-Key"),
        request=NamespaceUpdateIn,
        status=204,
    ),
)
