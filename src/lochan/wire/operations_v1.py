"""The operations of version 1."""

from __future__ import annotations

from typing import Final

from lochan.access.policy import Action
from lochan.model.contents import Namespace
from lochan.wire.commits import CommitBody, LogV1
from lochan.wire.config import ConfigV1
from lochan.wire.contents import ContentJson
from lochan.wire.listings import (
    ContentsRequest,
    ContentsV1,
    DiffV1,
    EntriesV1,
    NamespacesV1,
    NamespaceUpdateIn,
)
from lochan.wire.merges import MergeBody, MergeV1, TransplantBody
from lochan.wire.operations import ApiOperation
from lochan.wire.references import ReferenceIn, ReferencesV1, ReferenceV1

_PAGE: Final = ("maxRecords", "pageToken")
_WRITE: Final = ("expectedHash", "If-Match", "Idempotency-Key")
_NAMESPACE: Final = ("v1-ref", "v1-namespace")

OPERATIONS_V1: Final = (
    ApiOperation(
        "getConfigV1",
        "GET",
        "/config",
        "What clients must know about the server.",
        response=ConfigV1,
        needs="repository",
    ),
    ApiOperation(
        "getAllReferencesV1",
        "GET",
        "/trees",
        "Lists branches and tags.",
        response=ReferencesV1,
        parameters=("fetch", "filter", *_PAGE),
        action=Action.VIEW_REFERENCE,
    ),
    ApiOperation(
        "getDefaultBranchV1",
        "GET",
        "/trees/tree",
        "Reads the default branch.",
        response=ReferenceV1,
        action=Action.VIEW_REFERENCE,
    ),
    ApiOperation(
        "createReferenceV1",
        "POST",
        "/trees/tree",
        "Creates a branch or a tag from another reference at a hash.",
        response=ReferenceV1,
        parameters=("sourceRefName", "Idempotency-Key"),
        request=ReferenceIn,
        action=Action.CREATE_REFERENCE,
    ),
    ApiOperation(
        "getReferenceByNameV1",
        "GET",
        "/trees/tree/{ref}",
        "Reads one reference.",
        response=ReferenceV1,
        parameters=("v1-ref", "fetch"),
        action=Action.VIEW_REFERENCE,
    ),
    ApiOperation(
        "getEntriesV1",
        "GET",
        "/trees/tree/{ref}/entries",
        "Lists keys and the types of their contents.",
        response=EntriesV1,
        parameters=("v1-ref", "hashOnRef", "namespaceDepth", "filter", *_PAGE),
        action=Action.READ_ENTRIES,
    ),
    ApiOperation(
        "getCommitLogV1",
        "GET",
        "/trees/tree/{ref}/log",
        "Reads commits from newest to oldest.",
        response=LogV1,
        parameters=("v1-ref", "startHash", "endHash", "filter", "fetch", *_PAGE),
        action=Action.READ_LOG,
    ),
    ApiOperation(
        "assignReferenceV1",
        "PUT",
        "/trees/{type}/{name}",
        "Points a branch or a tag to another commit.",
        parameters=("v1-kind", "v1-name", *_WRITE),
        request=ReferenceIn,
        action=Action.ASSIGN_REFERENCE,
    ),
    ApiOperation(
        "deleteReferenceV1",
        "DELETE",
        "/trees/{type}/{name}",
        "Deletes a branch or a tag.",
        parameters=("v1-kind", "v1-name", *_WRITE),
        action=Action.DELETE_REFERENCE,
    ),
    ApiOperation(
        "commitV1",
        "POST",
        "/trees/branch/{branch}/commit",
        "Commits operations to a branch.",
        response=ReferenceV1,
        parameters=("v1-branch", *_WRITE),
        request=CommitBody,
        action=Action.COMMIT,
    ),
    ApiOperation(
        "mergeV1",
        "POST",
        "/trees/branch/{branch}/merge",
        "Merges a reference into a branch.",
        response=MergeV1,
        parameters=("v1-branch", *_WRITE),
        request=MergeBody,
        action=Action.MERGE,
    ),
    ApiOperation(
        "transplantV1",
        "POST",
        "/trees/branch/{branch}/transplant",
        "Makes commits of a reference again on a branch.",
        response=MergeV1,
        parameters=("v1-branch", "message", *_WRITE),
        request=TransplantBody,
        action=Action.MERGE,
    ),
    ApiOperation(
        "getContentV1",
        "GET",
        "/contents/{key}",
        "Reads one content.",
        response=ContentJson,
        parameters=("content-key", "v1-contents-ref", "hashOnRef"),
        action=Action.READ_CONTENT,
    ),
    ApiOperation(
        "getMultipleContentsV1",
        "POST",
        "/contents",
        "Reads the contents of keys that the body names.",
        response=ContentsV1,
        parameters=("v1-contents-ref", "hashOnRef"),
        request=ContentsRequest,
        action=Action.READ_CONTENT,
    ),
    ApiOperation(
        "getDiffV1",
        "GET",
        "/diffs/{from}...{to}",
        "Reads what differs between two references.",
        response=DiffV1,
        parameters=("v1-from", "v1-to"),
        action=Action.READ_ENTRIES,
    ),
    ApiOperation(
        "getNamespacesV1",
        "GET",
        "/namespaces/{ref}",
        "Lists namespaces, those below another if one is named.",
        response=NamespacesV1,
        parameters=("v1-ref", "v1-below", "hashOnRef"),
        action=Action.READ_ENTRIES,
    ),
    ApiOperation(
        "getNamespaceV1",
        "GET",
        "/namespaces/namespace/{ref}/{name}",
        "Reads one namespace.",
        response=Namespace,
        parameters=(*_NAMESPACE, "hashOnRef"),
        action=Action.READ_CONTENT,
    ),
    ApiOperation(
        "createNamespaceV1",
        "PUT",
        "/namespaces/namespace/{ref}/{name}",
        "Creates a namespace.",
        response=Namespace,
        parameters=(*_NAMESPACE, "Idempotency-Key"),
        request=Namespace,
        request_needed=False,
        action=Action.COMMIT,
    ),
    ApiOperation(
        "deleteNamespaceV1",
        "DELETE",
        "/namespaces/namespace/{ref}/{name}",
        "Deletes an empty namespace.",
        parameters=(*_NAMESPACE, "Idempotency-Key"),
        action=Action.COMMIT,
    ),
    ApiOperation(
        "updateNamespaceV1",
        "POST",
        "/namespaces/namespace/{ref}/{name}",
        "Sets and removes properties of a namespace.",
        parameters=(*_NAMESPACE, "Idempotency-Key"),
        request=NamespaceUpdateIn,
        action=Action.COMMIT,
    ),
)
