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
MODULES_IN_ING: dict[str, str] = {
    "base/limits/staging.py": "the limits of the package of this name",
    "staging/listing.py": "a listing is what it makes: a noun",
    "staging/staging.py": "the whole of the package of this name",
    "client/blocking.py": "the client that blocks, beside the asynchronous one: an adjective",
}

# A model or a simulated thing has the name of what it stands for; tests read them side by side.
MODELS = ("src/lochan/testing/models/", "src/lochan/testing/sim/")

# The same group of methods in two layers: use cases, and the clients with the embedded library.
_GROUP = "the use cases and the interface of the clients have the same groups of methods"

# Each has its usual meaning in its own package, and no module uses both.
_APART = "the usual word in packages that never import each other, and no module uses both"

# Public classes that share a name, each with its reason.
SHARED_CLASSES: dict[str, str] = {
    "Audit": _APART,
    "Change": _APART,
    "Commits": _GROUP,
    "Condition": _APART,
    "Contents": _GROUP,
    "Directory": "the users and groups of a store, and the folder of an embedded store",
    "Draft": _APART,
    "Entry": "a row of a store, and an entry of a catalog's listing: kv knows nothing of the model",
    "Finding": _APART,
    "Group": "a group of users, and a group of methods of the clients",
    "GroupFlush": "one for threads in a store, one for responses in the server",
    "History": _GROUP,
    "Layout": _APART,
    "Merges": _GROUP,
    "Namespaces": _GROUP,
    "Options": _APART,
    "Page": "a page of a store's scan, and a page of a listing: kv knows nothing of the model",
    "Plan": "a plan of generated commits, of files to read, of faults; no module uses two of them",
    "Pool": "a pool of threads in the server, and a pool of connections to PostgreSQL",
    "Progress": _APART,
    "Published": _APART,
    "Publisher": "the kernel publishes chains, an audit on Spark publishes its run",
    "Query": "the query of a URL, and the check of an audit that is a query",
    "Reader": _APART,
    "References": _GROUP,
    "Report": "the report of `lochan check`, and the report of an audit on Spark",
    "RepositorySettings": _GROUP,
    "Session": "a session of PostgreSQL, and the session of a PyIceberg catalog",
    "Shape": _APART,
    "Source": _APART,
    "Step": "a step of a spec, of the generator, of an audit; no module uses two of them",
    "Token": "an API token, and a token of an SQL text",
    "Unchanged": "an operation of a user, and the operation of the kernel that it becomes",
    "Views": "views of commits in the kernel, and views of Iceberg",
}


def module_in_ing(source: Source) -> list[str]:
    """Returns a message if the name of a module ends in -ing and has no reason."""
    path = PurePosixPath(source.where)
    below = source.where.removeprefix("src/lochan/")
    if not path.stem.endswith("ing") or below in MODULES_IN_ING:
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
    known = SHARED_CLASSES.keys()
    return [
        f"{name} is a class in {', '.join(places)}: rename one, or list it with a reason"
        for name, places in sorted(public_classes(sources).items())
        if len(places) > 1 and name not in known
    ]
