"""Everything that can be read of a repository beside what the model holds."""

from __future__ import annotations

from random import Random
from typing import Any

from lochan.base.errors import NotFound
from lochan.testing.models.history import difference
from lochan.testing.models.merges import Planned
from lochan.testing.models.repository import RepositoryModel
from tests.stateful.history_answers import check_entry, require
from tests.stateful.history_values import held, held_or_none


def check_everything(system: Any, model: RepositoryModel) -> None:
    """Reads every reference whole and compares."""
    check_names(system, model)
    for name in model.references:
        check_content(system, model, name, model.head(name))
        check_log(system, model, name)
    for name in model.moves:
        check_moves(system, model, name)


def check_some(system: Any, model: RepositoryModel, pick: Random) -> None:
    """Reads something and compares."""
    name = pick.choice(sorted(model.references))
    roll = pick.randrange(6)
    if roll == 0:
        check_content(system, model, name, model.head(name))
    elif roll == 1:
        check_log(system, model, name)
    elif roll == 2:
        check_moves(system, model, pick.choice(sorted(model.moves)))
    elif roll == 3:
        check_names(system, model)
    elif roll == 4:
        one = pick.choice(list(model.history.commits))
        check_content(system, model, f"@{one}", one)
    else:
        one, other = pick.choices(list(model.history.commits), k=2)
        check_difference(system, model, one, other)


def check_names(system: Any, model: RepositoryModel) -> None:
    found = {one.name: (one.kind, one.hash) for one in system.references.iterate()}
    wanted = {name: (one.kind, one.head) for name, one in model.references.items()}
    require(found == wanted, "references", found, wanted)


def check_content(system: Any, model: RepositoryModel, spec: str, commit: str) -> None:
    entries = system.contents.iterate(spec, with_content=True)
    found = {entry.key: held(entry.content) for entry in entries}
    wanted = model.history.content(commit)
    require(found == wanted, "content", spec, found, wanted)


def check_log(system: Any, model: RepositoryModel, name: str) -> None:
    line = list(model.history.line(model.head(name)))
    entries = list(system.history.iterate(name, fetch_all=True))
    ids = [entry.meta.hash for entry in entries]
    require(ids == [commit.id for commit in line], "log", name, ids)
    for entry, commit in zip(entries, line, strict=True):
        wanted = Planned(commit.operations, commit.content, commit.message)
        check_entry(entry, commit.parents, wanted)


def check_difference(system: Any, model: RepositoryModel, one: str, other: str) -> None:
    found = {
        entry.key: (held_or_none(entry.left), held_or_none(entry.right))
        for entry in system.history.iterate_diff(f"@{one}", f"@{other}")
    }
    changes = difference(model.history.content(one), model.history.content(other))
    wanted = {change.key: (change.before, change.after) for change in changes}
    require(found == wanted, "difference", one, other, found, wanted)


def check_moves(system: Any, model: RepositoryModel, name: str) -> None:
    """The ref-log has every move and every commit, of all incarnations of a name."""
    wanted = [(move.kind, move.old, move.new) for move in reversed(model.moves[name])]
    try:
        found = [
            (one.kind, _commit_of(system, model, one.old), _commit_of(system, model, one.new))
            for one in system.references.iterate_log(name)
        ]
    except NotFound:
        found = []
    if name == model.default:
        # The default branch came with the repository.
        wanted.append(("create", None, model.history.empty))
    require(found == wanted, "ref-log", name, found, wanted)


def _commit_of(system: Any, model: RepositoryModel, pointer: str | None) -> str | None:
    """Returns the commit that a pointer leads to: an annotated tag has an object of its own."""
    if pointer is None or pointer in model.history:
        return pointer
    found: str = system.contents.entries(f"@{pointer}", 1).reference.hash
    return found
