"""A plain, slow model of decisions, and random policies to compare the compiled rights with it.

The model goes through statements one by one and looks at the texts of patterns and the elements of
keys. It shares nothing with the package but the names of actions and the shapes of policies.
Conditions are drawn from a list in which each has a function of Python that does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

from lochan.access.policy import Action
from lochan.base.keys import file_key, table_key
from lochan.model.access import AccessPolicy, Statement

A = Action
KEYED = (A.READ_ENTRIES, A.READ_CONTENT, A.WRITE_CONTENT, A.DELETE_CONTENT)
IN_REFERENCE = (
    *(A.VIEW_REFERENCE, A.CREATE_REFERENCE, A.ASSIGN_REFERENCE, A.READ_LOG),
    *(A.COMMIT, A.MERGE, A.IMPORT_FILES),
)

CHECKS = {
    A.READ_ENTRIES: ("READ_ENTRIES", "READ_CONTENT_KEY"),
    A.READ_CONTENT: ("READ_ENTITY_VALUE",),
    A.WRITE_CONTENT: ("CREATE_ENTITY", "UPDATE_ENTITY"),
    A.DELETE_CONTENT: ("DELETE_ENTITY",),
    A.READ_LOG: ("LIST_COMMIT_LOG",),
    A.COMMIT: ("COMMIT_CHANGE_AGAINST_REFERENCE",),
    A.MERGE: ("COMMIT_CHANGE_AGAINST_REFERENCE",),
    A.ASSIGN_REFERENCE: ("ASSIGN_REFERENCE_TO_HASH",),
    A.READ_SETTINGS: ("READ_REPOSITORY_CONFIG",),
    A.WRITE_SETTINGS: ("UPDATE_REPOSITORY_CONFIG",),
}

GROUPS = {
    "read": {
        *(A.VIEW_REFERENCE, A.READ_ENTRIES, A.READ_CONTENT, A.READ_LOG, A.READ_SETTINGS),
        A.LIST_REPOSITORIES,
    },
    "write": {
        *(A.CREATE_REFERENCE, A.ASSIGN_REFERENCE, A.DELETE_REFERENCE, A.COMMIT, A.MERGE),
        *(A.WRITE_CONTENT, A.DELETE_CONTENT),
    },
    "*": set(A),
    "fs:ReadObject": {A.READ_CONTENT},
    "CREATE_ENTITY": {A.WRITE_CONTENT},
    **{action.value: {action} for action in A},
}

REPOSITORIES = ("r", "r2", "team/r", "team/x", "teams/r")
REPOSITORY_PATTERNS = ("*", "r", "team/*", "team/r")
REFERENCES = ("main", "main2", "dev", "dev/x", "dev/y/z", "dev2/x", "secret/a", "Z")
EACH_REFERENCE = (*REFERENCES, "dev/q")
"""A name of each kind that patterns and conditions distinguish."""

REFERENCE_PATTERNS = ("*", "main", "dev/*", "dev/y/*", "dev/x", "dev", "secret/*")

Key = tuple[str, ...] | str
"""A key of a table as its elements, or the path of a file."""

KEYS: tuple[Key, ...] = (
    *(("a",), ("a", "b"), ("a", "b", "c"), ("a", "bc"), ("ab",), ("ab", "c"), ("a.b",)),
    *(("a.b", "c"), ("a.b", "c", "d"), ("b",), ("zz",), ("a", "b.c")),
    *("a", "a/", "a/b", "a/b/c", "a/bc", "ab/c", "a.b", "a.b/c", "b", "zz", "0"),
)
KEY_PATTERNS = ("*", "a", "a.*", "a.b", "a.b.*", "a\x1db", "a\x1db.*", "ab.*", "b", "a.b\x1dc")
PATH_PATTERNS = ("*", "a", "a/*", "a/b", "a/b/*", "a.b", "ab/*", "b")


ACTIONS = (*Action, *KEYED * 3)
ACTION_NAMES = (*GROUPS, *("read", "write", "*") * 4)
ALLOW_ALL = Statement(effect="allow", actions=("*",))

Place = tuple[Action, str, str | None]
"""An action, a repository and a reference."""


class Paths(Enum):
    """What `path` stands for in conditions.

    No condition is known to hold for every path, so what needs all keys is not allowed by one, and
    is denied by one. A condition may hold for some path, so it may allow and need not deny.
    """

    KNOWN = "that of the key"
    EVERY = "every path"
    SOME = "some path"


class Failed(Exception):
    """That a condition cannot be evaluated."""


def _second(values: dict[str, Any]) -> bool:
    if len(values["roles"]) < 2:
        raise Failed
    return values["roles"][1] == "g2"


def _fails(values: dict[str, Any]) -> bool:
    raise Failed


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "role == 'alice'": lambda v: v["role"] == "alice",
    "role != 'alice'": lambda v: v["role"] != "alice",
    "'g2' in roles": lambda v: "g2" in v["roles"],
    "roles.exists(x, x.startsWith('g'))": lambda v: any(x.startswith("g") for x in v["roles"]),
    "roles[1] == 'g2'": _second,
    "int('x' + role) == 1": _fails,
    "repository == 'r'": lambda v: v["repository"] == "r",
    "ref == 'main'": lambda v: v["ref"] == "main",
    "ref.startsWith('dev')": lambda v: v["ref"].startswith("dev"),
    "!(ref in ['main', 'dev/x'])": lambda v: v["ref"] not in ("main", "dev/x"),
    "ref != 'main' && repository == 'r'": (lambda v: v["ref"] != "main" and v["repository"] == "r"),
    "repository == 'r2' || ref == 'dev'": (lambda v: v["repository"] == "r2" or v["ref"] == "dev"),
    "op == 'READ_ENTITY_VALUE'": lambda v: v["op"] == "READ_ENTITY_VALUE",
    "op in ['CREATE_ENTITY', 'READ_CONTENT_KEY']": (
        lambda v: v["op"] in ("CREATE_ENTITY", "READ_CONTENT_KEY")
    ),
    "op != 'UPDATE_ENTITY'": lambda v: v["op"] != "UPDATE_ENTITY",
    "path.startsWith('a.b')": lambda v: v["path"].startswith("a.b"),
    "path == 'a'": lambda v: v["path"] == "a",
    "path.startsWith('a') && ref == 'main'": (
        lambda v: v["path"].startswith("a") and v["ref"] == "main"
    ),
    "path.endsWith('c') || int(path) == 1": lambda v: path_ends(v["path"]),
    "path.contains('\\u001d')": lambda v: "\x1d" in v["path"],
}


RULES = (*CONDITIONS, *[text for text in CONDITIONS if "op" in text] * 2)


def path_ends(path: str) -> bool:
    if path.endswith("c"):
        return True
    if path == "0":
        return False
    raise Failed


class Caller(NamedTuple):
    """A caller with the statements of its policies, and those that limit its token."""

    statements: list[Statement]
    scopes: list[Statement] | None
    name: str
    roles: tuple[str, ...]


def raw(key: Key) -> bytes:
    return bytes(file_key(key) if isinstance(key, str) else table_key(key))


def allows(
    caller: Caller,
    action: Action,
    repository: str,
    reference: str | None,
    key: Key | None = None,
    paths: Paths = Paths.KNOWN,
) -> bool:
    """Returns whether an action is allowed; on keys only with a key."""
    viewed = action in KEYED or action in IN_REFERENCE or action is A.DELETE_REFERENCE
    if viewed and action not in (A.VIEW_REFERENCE, A.CREATE_REFERENCE):
        if not allows(caller, A.VIEW_REFERENCE, repository, reference):
            return False
    if action is A.EXCHANGE_OBJECTS:
        for needed in (A.READ_CONTENT, A.READ_ENTRIES):
            if not allows_all_keys(caller, needed, repository, None):
                return False
        if not allows(caller, A.READ_LOG, repository, None):
            return False
    layers = [caller.statements] if caller.scopes is None else [caller.statements, caller.scopes]
    for layer in layers:
        for check in CHECKS.get(action, (action.name,)):
            found = {
                one.effect
                for one in layer
                if matches(one, caller, action, check, repository, reference, key, paths)
            }
            if found != {"allow"}:
                return False
    return True


def allows_all_keys(caller: Caller, action: Action, repository: str, reference: str | None) -> bool:
    """Returns whether an action on keys is allowed for every key that there may ever be."""
    return all(allows(caller, action, repository, reference, key, Paths.EVERY) for key in KEYS)


def allows_some_key(caller: Caller, action: Action, repository: str, reference: str | None) -> bool:
    """Returns whether an action on keys may be allowed for some key."""
    return any(allows(caller, action, repository, reference, key, Paths.SOME) for key in KEYS)


def matches(
    one: Statement,
    caller: Caller,
    action: Action,
    check: str,
    repository: str,
    reference: str | None,
    key: Key | None,
    paths: Paths,
) -> bool:
    """Returns whether one statement counts."""
    allowing = one.effect == "allow"
    if not any(action in GROUPS[name] for name in one.actions):
        return False
    if action is A.LIST_REPOSITORIES and repository == "":
        if not allowing and "*" not in one.repositories:
            return False
    elif not any(name_matches(pattern, repository) for pattern in one.repositories):
        return False
    in_reference = action in KEYED or action in IN_REFERENCE or action is A.DELETE_REFERENCE
    whole = action in (A.DELETE_REFERENCE, A.EXCHANGE_OBJECTS)
    by_hash = reference is None and (in_reference or whole)
    if not reference_matches(one, action, reference, by_hash=by_hash):
        return False
    if not key_counts(one, action, key, whole=whole, in_reference=in_reference):
        return False
    if not one.rule:
        return True
    if (by_hash and "ref" in one.rule) or (whole and "path" in one.rule):
        return not allowing
    if paths is not Paths.KNOWN and "path" in one.rule:
        return allowing == (paths is Paths.SOME)
    values = {
        "op": check,
        "role": caller.name,
        "roles": list(caller.roles),
        "repository": repository,
        "ref": reference or "",
        "path": "" if key is None or action not in KEYED else path(key),
    }
    try:
        return CONDITIONS[one.rule](values)
    except Failed:
        return not allowing


def reference_matches(
    one: Statement, action: Action, reference: str | None, *, by_hash: bool
) -> bool:
    if "*" in one.references:
        return True
    if reference is not None:
        return any(name_matches(pattern, reference) for pattern in one.references)
    if by_hash:
        return one.effect == "deny"
    return action is A.LIST_REPOSITORIES and one.effect == "allow"


def key_counts(
    one: Statement, action: Action, key: Key | None, *, whole: bool, in_reference: bool
) -> bool:
    if action in KEYED:
        assert key is not None
        return key_matches(one, key)
    if "*" in one.keys and "*" in one.paths:
        return True
    if whole:
        return one.effect == "deny"
    return (in_reference or action is A.LIST_REPOSITORIES) and one.effect == "allow"


def name_matches(pattern: str, name: str) -> bool:
    if pattern == "*":
        return True
    if not pattern.endswith("*"):
        return pattern == name
    below = pattern[:-2].split("/")
    parts = name.split("/")
    return len(parts) > len(below) and parts[: len(below)] == below


def key_matches(one: Statement, key: Key) -> bool:
    mine, other = (one.paths, one.keys) if isinstance(key, str) else (one.keys, one.paths)
    if "*" in mine:
        return "*" in other or not other
    if isinstance(key, str):
        return any(name_matches(pattern, key) for pattern in mine)
    return any(elements_match(pattern, key) for pattern in mine)


def elements_match(pattern: str, key: tuple[str, ...]) -> bool:
    elements = [element.replace("\x1d", ".") for element in pattern.split(".")]
    if elements[-1] != "*":
        return elements == list(key)
    elements.pop()
    return len(key) > len(elements) and list(key[: len(elements)]) == elements


def path(key: Key) -> str:
    if isinstance(key, str):
        return key
    return ".".join(element.replace(".", "\x1d") for element in key)


class Choose(Protocol):
    """Chooses one of several options: of Hypothesis, or of a seeded generator."""

    def __call__(self, options: Sequence[Any], /) -> Any: ...


def draw_statement(choose: Choose) -> Statement:
    """Returns a random statement; half of its lists of patterns are `*` alone."""

    def some(values: Sequence[str], least: int = 1) -> tuple[str, ...]:
        if choose((True, False)):
            return ("*",)
        return tuple(choose(values) for _ in range(choose(range(least, 3))))

    keys, paths = some(KEY_PATTERNS, 0), some(PATH_PATTERNS, 0)
    names = tuple(choose(ACTION_NAMES) for _ in range(choose((1, 2))))
    return Statement(
        effect=choose(("allow", "allow", "deny")),
        actions=names,
        repositories=some(REPOSITORY_PATTERNS),
        references=some(REFERENCE_PATTERNS),
        keys=keys,
        paths=paths if keys or paths else ("*",),
        rule=choose(("", choose(RULES))),
    )


def draw_caller(choose: Choose) -> Caller:
    """Returns a random caller; every other one has a statement that allows all."""

    def several() -> list[Statement]:
        found = [draw_statement(choose) for _ in range(choose((1, 2, 3, 4)))]
        return [*found, ALLOW_ALL] if choose((True, False)) else found

    return Caller(
        several(),
        several() if choose((True, False, False)) else None,
        choose(("alice", "bob")),
        choose(((), ("g1",), ("g1", "g2"), ("x",))),
    )


def draw_places(choose: Choose) -> list[Place]:
    """Returns places of a few actions: each in two references of one repository, and by hash."""
    found: list[Place] = []
    for _ in range(3):
        action, repository = choose(ACTIONS), choose((*REPOSITORIES, ""))
        references = (choose(REFERENCES), choose(REFERENCES), None)
        found += [(action, repository, reference) for reference in references]
    return found


@st.composite
def callers(draw: st.DrawFn) -> Caller:
    return draw_caller(lambda options: draw(st.sampled_from(options)))


@st.composite
def places(draw: st.DrawFn) -> list[Place]:
    return draw_places(lambda options: draw(st.sampled_from(options)))


def policy(statements: list[Statement], name: str = "p") -> AccessPolicy:
    return AccessPolicy(name, tuple(statements))
