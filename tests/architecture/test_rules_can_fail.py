"""Every rule is tested with text that violates it: a rule that cannot fail protects nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.architecture import rules
from tests.architecture.tree import Source

GOOD = '''"""A docstring."""

# Because a page must fit a screen.
LIMIT = 3


def f():
    return LIMIT
'''


def planted(text: str, where: str = "src/lochan/base/planted.py") -> Source:
    return Source(where, text)


BAD: list[tuple[Callable[[Source], list[str]], str]] = [
    (rules.long_file, "x = 1\n" * 501),
    (rules.long_functions, "def f():\n" + "    x = 1\n" * 60),
    (rules.long_functions, "class A:\n    async def f(self):\n" + "        x = 1\n" * 60),
    (rules.wide_lines, "x = '" + "a" * 100 + "'"),
    (rules.missing_docstring, "x = 1\n"),
    (rules.missing_docstring, '"""no sentence"""\n'),
    (rules.unsafe_calls, "eval('1')"),
    (rules.unsafe_calls, "exec('1')"),
    (rules.unsafe_calls, "import yaml\nyaml.load('a')"),
    (rules.unsafe_calls, "import pickle"),
    (rules.unsafe_calls, "from pickle import loads"),
    (rules.unsafe_calls, "options(sync=True)"),
    (rules.asserts, "assert True"),
    (rules.prints, "print(1)"),
    (rules.broad_excepts, "try:\n    f()\nexcept Exception:\n    pass\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept:\n    pass\n"),
    (rules.broad_excepts, "try:\n    f()\nexcept (OSError, BaseException) as e:\n    pass\n"),
    (rules.recursion, "def f(n):\n    return f(n - 1)\n"),
    (rules.recursion, "class A:\n    def f(self):\n        self.f()\n"),
    (rules.sleeps, "import time\ntime.sleep(1)"),
    (rules.sleeps, "from time import sleep\nsleep(0.1)"),
    (rules.sleeps, "from time import sleep as nap\nnap(1)"),
    (rules.misplaced_libraries, "import pyspark"),
    (rules.misplaced_libraries, "from pyspark.sql import DataFrame"),
    (rules.misplaced_libraries, "def f():\n    import pyarrow.parquet as pq\n"),
    (rules.misplaced_libraries, "if TYPE_CHECKING:\n    pass\nelse:\n    import pandas\n"),
    (rules.misplaced_libraries, "import_module('pyiceberg.catalog')"),
    (rules.misplaced_libraries, "importlib.import_module('pyiceberg')"),
    (rules.unexplained_limits, '"""A docstring."""\nLIMIT = 3\n'),
    (rules.unexplained_limits, '"""A docstring."""\n\nLIMIT: int = 3\n'),
    (rules.unexplained_limits, '"""A docstring."""\n#\nLIMIT: int = 3\n'),
]


@pytest.mark.parametrize(
    ("rule", "text"), BAD, ids=[f"{rule.__name__}-{n}" for n, (rule, _) in enumerate(BAD)]
)
def test_a_planted_fault_is_found(rule, text):
    assert len(rule(planted(text))) == 1


@pytest.mark.parametrize("rule", list(dict.fromkeys(rule for rule, _ in BAD)))
def test_good_text_passes(rule):
    assert rule(planted(GOOD)) == []


def test_cleaning_up_and_raising_again_is_allowed():
    text = "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n"
    assert rules.broad_excepts(planted(text)) == []


def test_a_method_may_call_a_function_of_its_name():
    text = "class A:\n    def read(self):\n        return read(self)\n"
    assert rules.recursion(planted(text)) == []


@pytest.mark.parametrize(
    "where", ["src/lochan/utils.py", "src/lochan/common/a.py", "src/lochan/core/__init__.py"]
)
def test_a_name_without_a_purpose_is_found(where):
    assert len(rules.purposeless_name(planted(GOOD, where))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import os.path",
        "from os import path",
        "def f():\n    import time\n",
        "from concurrent.futures import Future",
        "from datetime import datetime\nx = datetime.now()",
    ],
)
def test_an_import_of_io_is_found(text):
    forbidden = {"time", "os", "concurrent"}
    assert len(rules.io_imports(planted(text), forbidden)) == 1
    assert rules.io_imports(planted("import struct, uuid, hashlib"), forbidden) == []


@pytest.mark.parametrize(
    ("where", "library", "found"),
    [
        ("src/lochan/spark/planted.py", "pyspark", 0),
        ("src/pyspark_lochan.py", "pyspark", 0),
        ("src/lochan/iceberg/planted.py", "pyspark", 1),
        ("src/lochan/iceberg/planted.py", "pyiceberg", 0),
        ("src/lochan/catalog/iceberg/planted.py", "pyiceberg", 1),
        ("src/lochan/cli/planted.py", "pyarrow", 1),
        ("src/lochan/sparkling.py", "pyspark", 1),
    ],
)
def test_a_library_outside_of_its_packages_is_found(where, library, found):
    assert len(rules.misplaced_libraries(planted(f"import {library}", where))) == found


def test_an_import_for_type_checkers_is_allowed():
    text = "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame\n"
    assert rules.misplaced_libraries(planted(text)) == []
    assert len(rules.misplaced_libraries(planted(text + "from pyspark.sql import Row\n"))) == 1
