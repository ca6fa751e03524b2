"""The error tree: drawn in a docstring, equal to the classes, its kinds never changed."""

from __future__ import annotations

import pytest

from lochan.base import errors
from lochan.base.errors import LochanError

# Append only: clients and logs use these words. A kind may be added, never renamed or reused.
KINDS = [
    ("LochanError", "lochan"),
    ("NotFound", "not_found"),
    ("AlreadyExists", "already_exists"),
    ("Conflict", "conflict"),
    ("Invalid", "invalid"),
    ("InvalidKey", "invalid_key"),
    ("InvalidUrl", "invalid_url"),
    ("TooLarge", "too_large"),
    ("Denied", "denied"),
    ("Unauthenticated", "unauthenticated"),
    ("Exhausted", "exhausted"),
    ("Unknown", "unknown"),
    ("Unavailable", "unavailable"),
    ("StoreClosed", "store_closed"),
    ("StoreLocked", "store_locked"),
    ("Corrupt", "corrupt"),
    ("NewerFormat", "newer_format"),
    ("Bug", "bug"),
    ("KeysConflict", "keys_conflict"),
    ("HeadConflict", "head_conflict"),
    ("ReferenceNotFound", "reference_not_found"),
    ("ContentNotFound", "content_not_found"),
    ("NamespaceNotFound", "namespace_not_found"),
    ("NamespaceExists", "namespace_exists"),
    ("NamespaceNotEmpty", "namespace_not_empty"),
    ("NotABranch", "not_a_branch"),
    ("KeyReused", "key_reused"),
    ("AuditFailed", "audit_failed"),
    ("RequirementFailed", "requirement_failed"),
    ("StoreForked", "store_forked"),
    ("TooManyRequests", "too_many_requests"),
    ("PathNotFound", "path_not_found"),
    ("ConditionFailed", "condition_failed"),
    ("NothingToCommit", "nothing_to_commit"),
    ("StagedWork", "staged_work"),
    ("RangeNotSatisfiable", "range_not_satisfiable"),
    ("BytesDiffer", "bytes_differ"),
    ("UploadNotFound", "upload_not_found"),
    ("Refusal", "refusal"),
]


def drawn_tree(docstring: str) -> set[tuple[str, str]]:
    """Reads (child, parent) pairs out of the drawing; indentation is parenthood."""
    pairs = set()
    path: list[tuple[int, str]] = []
    drawing = False
    for line in docstring.splitlines():
        name = line.strip()
        drawing = drawing or name == "LochanError"
        if not drawing or not name:
            continue
        indent = len(line) - len(line.lstrip())
        while path and path[-1][0] >= indent:
            path.pop()
        pairs.add((name, path[-1][1] if path else ""))
        path.append((indent, name))
    return pairs


def real_tree(root: type[LochanError]) -> set[tuple[str, str]]:
    pairs = {(root.__name__, "")}
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for child in parent.__subclasses__():
            if child.__module__.startswith("lochan."):
                pairs.add((child.__name__, parent.__name__))
                waiting.append(child)
    return pairs


def all_errors() -> list[type[LochanError]]:
    return [getattr(errors, name) for name, _ in sorted(real_tree(LochanError))]


def test_the_drawing_is_the_tree():
    assert drawn_tree(errors.__doc__ or "") == real_tree(LochanError)


def test_every_error_is_defined_in_the_one_file():
    assert {error.__module__ for error in all_errors()} == {"lochan.base.errors"}


def test_kinds_are_pinned_and_unique():
    assert {(error.__name__, error.kind) for error in all_errors()} == set(KINDS)
    kinds = [kind for _, kind in KINDS]
    assert len(kinds) == len(set(kinds))


def test_every_kind_is_its_own_not_its_parents():
    assert [error.__name__ for error in all_errors() if "kind" not in vars(error)] == []


@pytest.mark.parametrize(
    "drawing",
    [
        "LochanError\n    NotFound\n",
        "LochanError\n    NotFound\n        Conflict\n",
        "no drawing at all",
    ],
)
def test_a_wrong_drawing_is_noticed(drawing):
    assert drawn_tree(drawing) != real_tree(LochanError)
