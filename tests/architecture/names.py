"""Names of modules and classes: what a name has to be, and the exceptions with their reasons.

A module is named by a noun of the domain; a name in -ing mostly hides which. Two public classes of
one name make a reader look up which of them is meant. Both are allowed with a reason, here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.architecture.tree import Source

# Module names in -ing, by their path below src/lochan, each with its reason.
MODULES_IN_ING: dict[str, str] = {}

# Still to be renamed or given a reason: modules in -ing, and classes with one name. Empty both.
MODULES_STILL_TO_NAME: frozenset[str] = frozenset(
    (
        "assembly/serving.py",
        "cli/merging.py",
        "cli/printing.py",
        "cli/serving.py",
        "client/asking.py",
        "client/blocking.py",
        "client/merging.py",
        "client/namespacing.py",
        "client/retrying.py",
        "embedded/reading.py",
        "embedded/writing.py",
        "http/forwarding.py",
        "iceberg/parsing.py",
        "kernel/listing.py",
        "spark/audit/hiding.py",
        "spark/audit/judging.py",
        "spark/audit/publishing.py",
        "spark/audit/recording.py",
        "spark/read/planning.py",
        "spark/read/reading.py",
        "spark/read/scanning.py",
        "spark/serving.py",
        "spark/shipping.py",
        "spark/write/replacing.py",
        "spark/write/shaping.py",
        "spark/write/writing.py",
        "stores/rocksdb/opening.py",
        "testing/models/merging.py",
    )
)
CLASSES_STILL_TO_NAME: frozenset[str] = frozenset(
    (
        "Ask",
        "Change",
        "Draft",
        "Entry",
        "Finding",
        "Gate",
        "GroupFlush",
        "Layout",
        "Once",
        "Operation",
        "Options",
        "Overlay",
        "Page",
        "Part",
        "Pinned",
        "Plan",
        "Pool",
        "Published",
        "Publisher",
        "Query",
        "Reader",
        "Reading",
        "Report",
        "Repositories",
        "Request",
        "Settings",
        "Shape",
        "Source",
        "Step",
        "Unchanged",
        "Views",
        "Wish",
        "Work",
    )
)

# A model or a simulated thing has the name of what it stands for; tests read them side by side.
MODELS = ("src/lochan/testing/models/", "src/lochan/testing/sim/")

# The same group of methods, by layer: use cases, the client, the library without a server.
_GROUP = "the use cases, the client and the embedded repository have the same groups of methods"

# Public classes that share a name, each with its reason.
SHARED_CLASSES: dict[str, str] = {
    "Commits": _GROUP,
    "Contents": _GROUP,
    "History": _GROUP,
    "Merges": _GROUP,
    "Namespaces": _GROUP,
    "References": _GROUP,
    "RepositorySettings": _GROUP,
}


def module_in_ing(source: Source) -> list[str]:
    """Returns a message if the name of a module ends in -ing and has no reason."""
    path = PurePosixPath(source.where)
    below = source.where.removeprefix("src/lochan/")
    if not path.stem.endswith("ing") or below in MODULES_IN_ING or below in MODULES_STILL_TO_NAME:
        return []
    return [f"{source.where}: name it by a noun, or list it with a reason"]


def public_classes(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Returns where the public classes are, by their name; models are left out."""
    found = defaultdict(list)
    for source in sources:
        if source.where.startswith(MODELS):
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(source.where)
    return dict(found)


def shared_class_names(sources: Iterable[Source]) -> list[str]:
    """Returns a message for each name of several public classes without a reason."""
    known = SHARED_CLASSES.keys() | CLASSES_STILL_TO_NAME
    return [
        f"{name} is a class in {', '.join(places)}: rename one, or list it with a reason"
        for name, places in sorted(public_classes(sources).items())
        if len(places) > 1 and name not in known
    ]
