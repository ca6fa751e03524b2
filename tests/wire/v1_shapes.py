"""The answers of version 1 as Nessie publishes them, as data: every field of every answer.

Written down from the public model of the API: what is marked for version 2 only is not here, and
what its server never writes in version 1 (`additionalParents` of a log entry, `metadata` of a
content), because pynessie refuses fields that it does not know. A field with a question mark may be
missing; a type with a question mark may be null.
"""

from __future__ import annotations

from typing import Any

Shape = str | list[Any] | dict[str, Any]

PAGE = {"hasMore": "bool", "token": "str?"}

SHAPES: dict[str, dict[str, Shape]] = {
    "Config": {"defaultBranch": "str", "maxSupportedApiVersion": "int"},
    "Key": {"elements": ["str"]},
    "Meta": {
        "hash": "str?",
        "committer": "str?",
        "author": "str?",
        "signedOffBy": "str?",
        "message": "str",
        "commitTime": "str?",
        "authorTime": "str?",
        "properties": {"*": "str"},
    },
    "ReferenceMetadata": {
        "numCommitsAhead": "int?",
        "numCommitsBehind": "int?",
        "commitMetaOfHEAD": "Meta?",
        "commonAncestorHash": "str?",
        "numTotalCommits": "int?",
    },
    "Reference": {
        "type": "str",
        "name": "str",
        "hash": "str?",
        "metadata?": "ReferenceMetadata",
    },
    "References": {**PAGE, "references": ["Reference"]},
    "Entry": {"type": "str", "name": "Key"},
    "Entries": {**PAGE, "entries": ["Entry"]},
    "Operation": {
        "type": "str",
        "key": "Key",
        "content?": "Content",
        "expectedContent?": "Content?",
    },
    "LogEntry": {
        "commitMeta": "Meta",
        "parentCommitHash": "str?",
        "operations": "Operations?",
    },
    "Log": {**PAGE, "logEntries": ["LogEntry"]},
    "KeyDetails": {
        "key": "Key",
        "mergeBehavior": "str",
        "conflictType": "str",
        "sourceCommits": ["str"],
        "targetCommits": ["str"],
    },
    "Merge": {
        "wasApplied": "bool",
        "wasSuccessful": "bool",
        "resultantTargetHash": "str?",
        "commonAncestor": "str?",
        "targetBranch": "str",
        "effectiveTargetHash": "str",
        "expectedHash": "str?",
        "sourceCommits": ["LogEntry"],
        "targetCommits": "LogEntries?",
        "details": ["KeyDetails"],
    },
    "ContentWithKey": {"key": "Key", "content": "Content"},
    "Contents": {"contents": ["ContentWithKey"]},
    "DiffEntry": {"key": "Key", "from": "Content?", "to": "Content?"},
    "Diff": {**PAGE, "diffs": ["DiffEntry"]},
    "Namespace": {
        "type": "str",
        "id": "str?",
        "elements": ["str"],
        "properties?": {"*": "str"},
    },
    "Namespaces": {"namespaces": ["Namespace"]},
    "Conflict": {"conflictType": "str", "key": "Key?", "message": "str"},
    "ErrorDetails": {"type": "str", "conflicts?": ["Conflict"], "contentKey?": "Key"},
    "Error": {
        "status": "int",
        "reason": "str",
        "message": "str",
        "errorCode": "str",
        "serverStackTrace": "str?",
        "errorDetails?": "ErrorDetails",
    },
}

CONTENTS: dict[str, dict[str, Shape]] = {
    "ICEBERG_TABLE": {
        "metadataLocation": "str",
        "snapshotId": "int",
        "schemaId": "int",
        "specId": "int",
        "sortOrderId": "int",
    },
    "ICEBERG_VIEW": {
        "metadataLocation": "str",
        "versionId": "int",
        "schemaId": "int",
        "sqlText?": "str",
        "dialect?": "str",
    },
    "DELTA_LAKE_TABLE": {
        "metadataLocationHistory": ["str"],
        "checkpointLocationHistory": ["str"],
        "lastCheckpoint": "str?",
    },
    "NAMESPACE": {"elements": ["str"], "properties?": {"*": "str"}},
    "UDF": {
        "metadataLocation?": "str",
        "versionId?": "str",
        "signatureId?": "str",
        "sqlText?": "str",
        "dialect?": "str",
    },
}

LISTS = {"Operations": "Operation", "LogEntries": "LogEntry"}

ANSWERS: dict[str, str | None] = {
    "getConfigV1": "Config",
    "getAllReferencesV1": "References",
    "getDefaultBranchV1": "Reference",
    "createReferenceV1": "Reference",
    "getReferenceByNameV1": "Reference",
    "getEntriesV1": "Entries",
    "getCommitLogV1": "Log",
    "assignReferenceV1": None,
    "deleteReferenceV1": None,
    "commitV1": "Reference",
    "mergeV1": "Merge",
    "transplantV1": "Merge",
    "getContentV1": "Content",
    "getMultipleContentsV1": "Contents",
    "getDiffV1": "Diff",
    "getNamespacesV1": "Namespaces",
    "getNamespaceV1": "Namespace",
    "createNamespaceV1": "Namespace",
    "deleteNamespaceV1": None,
    "updateNamespaceV1": None,
}
"""The shape of each operation's answer, None for those without a body."""

_PLAIN = {"str": str, "int": int, "bool": bool}


def complaints(value: Any, shape: Shape, where: str = "answer") -> list[str]:
    """Returns what a value has that the shape has not, and the other way round."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [
            each
            for at, one in enumerate(value)
            for each in complaints(one, shape[0], f"{where}[{at}]")
        ]
    if isinstance(shape, dict):
        return _of_fields(value, shape, where)
    if shape.endswith("?"):
        return [] if value is None else complaints(value, shape[:-1], where)
    if shape in LISTS:
        return complaints(value, [LISTS[shape]], where)
    if shape == "Content":
        return _of_content(value, where)
    if shape in SHAPES:
        return _of_fields(value, SHAPES[shape], where)
    return [] if type(value) is _PLAIN[shape] else [f"{where} is no {shape}: {value!r}"]


def _of_fields(value: Any, fields: dict[str, Any], where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    if "*" in fields:
        return [
            each
            for name, one in value.items()
            for each in complaints(one, fields["*"], f"{where}.{name}")
        ]
    known = {name.removesuffix("?"): shape for name, shape in fields.items()}
    found = [f"{where}.{name} is not in version 1" for name in value.keys() - known.keys()]
    for name, shape in fields.items():
        if name in value or not name.endswith("?"):
            if name not in value:
                found.append(f"{where}.{name} is missing")
            else:
                found += complaints(value[name], shape, f"{where}.{name}")
        elif name.removesuffix("?") in value:
            plain = name.removesuffix("?")
            found += complaints(value[plain], shape, f"{where}.{plain}")
    return found


def _of_content(value: Any, where: str) -> list[str]:
    fields = CONTENTS.get(value.get("type", "")) if isinstance(value, dict) else None
    if fields is None:
        # A content of an unknown type is shown unchanged.
        return [] if isinstance(value, dict) else [f"{where} is no content"]
    return _of_fields(value, {"type": "str", "id": "str?", **fields}, where)
