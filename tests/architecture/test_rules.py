"""The whole source, checked against every rule of `rules.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from tests.architecture import rules
from tests.architecture.tree import (
    ROOT,
    Source,
    contract,
    extra_requirements,
    is_built,
    layers_from,
    requirement_names,
    sources,
)

# In one worker, so that the source is parsed once.
pytestmark = pytest.mark.xdist_group("rules")

EVERYTHING = ("src", "tests", "benchmarks")

# Imports every module of the named packages in an interpreter without the named libraries.
IMPORT_ALL = """
import sys
from importlib import import_module
from pkgutil import walk_packages

middle = sys.argv.index("--")
missing = set(sys.argv[1:middle])

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
names = []
for package in sys.argv[middle + 1:]:
    found = import_module(package)
    inside = walk_packages(getattr(found, "__path__", ()), package + ".")
    names += [package, *(each.name for each in inside)]
for name in names:
    import_module(name)
print(len(names))
"""


def violations(
    rule: Callable[[Source], list[str]],
    *folders: str,
    but: Iterable[str] = (),
) -> list[str]:
    excluded = tuple(but)
    return [
        message
        for source in sources(*folders)
        if not (excluded and source.where.startswith(excluded))
        for message in rule(source)
    ]


@pytest.mark.parametrize(
    "rule",
    [rules.long_file, rules.long_functions, rules.wide_lines, rules.purposeless_name],
    ids=lambda rule: rule.__name__,
)
def test_files_and_functions_are_short_narrow_and_named_for_a_purpose(rule):
    assert violations(rule, *EVERYTHING) == []


def test_every_module_begins_with_a_docstring():
    assert violations(rules.missing_docstring, *EVERYTHING) == []


def test_every_folder_of_the_source_is_a_package():
    folders = {path.parent for path in (ROOT / "src/lochan").rglob("*.py")}
    missing = [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()]
    assert missing == []


def test_nothing_evaluates_text_unpickles_or_writes_synchronously():
    assert violations(rules.unsafe_calls, "src", "benchmarks") == []


def test_invariants_are_checked_with_check_not_assert():
    assert violations(rules.asserts, "src", but=["src/lochan/testing/"]) == []


def test_no_function_calls_itself():
    assert violations(rules.recursion, "src") == []


def test_only_the_command_line_prints():
    assert violations(rules.prints, "src", but=["src/lochan/cli/"]) == []


def test_broad_excepts_are_in_named_places_only():
    places = rules.BROAD_EXCEPT_PLACES
    assert len(places) <= rules.BROAD_EXCEPT_PLACES_MAX
    assert violations(rules.broad_excepts, "src", but=places) == []
    for place, reason in places.items():
        files = [source for source in sources("src") if source.where.startswith(place)]
        assert any(map(rules.broad_excepts, files)), f"{place} no longer needs it"
        assert len(reason) > 20, f"{place} needs a reason"


def test_tests_wait_for_events_and_never_sleep():
    assert violations(rules.sleeps, "tests", "src/lochan/testing") == []


def test_every_limit_has_its_reason():
    files = [source for source in sources("src") if "base/limits/" in source.where]
    assert len(files) == 23
    assert [message for source in files for message in rules.unexplained_limits(source)] == []


def test_libraries_of_the_pipeline_are_imported_in_their_packages_only():
    assert violations(rules.misplaced_libraries, "src") == []
    for library, packages in rules.PACKAGES_OF_LIBRARIES.items():
        assert all((ROOT / package).exists() for package in packages), library


def test_every_library_of_the_extra_is_bound_to_packages():
    libraries = requirement_names(extra_requirements("spark"))
    modules = {name.partition("[")[0].replace("-", "_") for name in libraries}
    assert modules <= set(rules.PACKAGES_OF_LIBRARIES)


def test_the_import_contract_names_every_package_outside_of_the_pipeline():
    # The command line imports the pipeline only when the demo runs it.
    loads = {"__main__", "cli", "iceberg", "spark"}
    assert set(contract("spark")["source_modules"]) == {
        f"lochan.{package}"
        for package in layers_from("__main__")
        if package not in loads and is_built(package)
    }


@pytest.mark.slow
def test_without_the_extra_all_other_packages_can_be_imported():
    packages = [f"lochan.{name}" for name in layers_from("__main__") if is_built(name)]
    others = sorted({*packages} - {"lochan.__main__", "lochan.spark", "lochan.iceberg"})
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *rules.PACKAGES_OF_LIBRARIES, "--", *others],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_packages_from_service_down_import_no_time_randomness_or_io():
    forbidden = set(contract("io")["forbidden_modules"])
    packages = tuple(
        f"src/lochan/{name}{end}" for name in layers_from("service") for end in ("/", ".py")
    )
    found = [
        message
        for source in sources("src")
        if source.where.startswith(packages)
        for message in rules.io_imports(source, forbidden)
    ]
    assert found == []


def test_the_import_contract_names_every_package_from_service_down():
    present = {f"lochan.{name}" for name in layers_from("service") if is_built(name)}
    assert set(contract("io")["source_modules"]) == present
