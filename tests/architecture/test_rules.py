"""The whole source against every rule of the house."""

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
    requirement_names,
    rooms_from,
    sources,
)

# In one worker, so that the source is parsed once.
pytestmark = pytest.mark.xdist_group("rules")

EVERYTHING = ("src", "tests", "benchmarks")

# Imports every module of the named rooms in an interpreter that does not have the named libraries.
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
for room in sys.argv[middle + 1:]:
    found = import_module(room)
    inside = walk_packages(getattr(found, "__path__", ()), room + ".")
    names += [room, *(each.name for each in inside)]
for name in names:
    import_module(name)
print(len(names))
"""


def is_built(room: str) -> bool:
    return (ROOT / "src/lochan" / room).is_dir() or (ROOT / f"src/lochan/{room}.py").is_file()


def complaints(
    rule: Callable[[Source], list[str]],
    *folders: str,
    but: Iterable[str] = (),
) -> list[str]:
    spared = tuple(but)
    return [
        sentence
        for source in sources(*folders)
        if not (spared and source.where.startswith(spared))
        for sentence in rule(source)
    ]


@pytest.mark.parametrize(
    "rule",
    [rules.long_file, rules.long_functions, rules.wide_lines, rules.purposeless_room],
    ids=lambda rule: rule.__name__,
)
def test_files_and_functions_are_short_narrow_and_named_for_a_purpose(rule):
    assert complaints(rule, *EVERYTHING) == []


def test_every_door_has_its_sign():
    assert complaints(rules.missing_sign, *EVERYTHING) == []


def test_every_room_is_a_package():
    folders = {path.parent for path in (ROOT / "src/lochan").rglob("*.py")}
    unsigned = [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()]
    assert unsigned == []


def test_nothing_evaluates_text_unpickles_or_writes_synchronously():
    assert complaints(rules.unsafe_calls, "src", "benchmarks") == []


def test_beliefs_are_checked_with_check_not_assert():
    assert complaints(rules.asserts, "src", but=["src/lochan/testing/"]) == []


def test_no_function_calls_itself():
    assert complaints(rules.recursion, "src") == []


def test_only_the_command_line_prints():
    assert complaints(rules.prints, "src", but=["src/lochan/cli/"]) == []


def test_broad_excepts_stand_in_named_places_only():
    places = rules.BROAD_EXCEPT_PLACES
    assert len(places) <= rules.BROAD_EXCEPT_PLACES_MAX
    assert complaints(rules.broad_excepts, "src", but=places) == []
    for place, reason in places.items():
        held = [one for one in sources("src") if one.where.startswith(place)]
        assert any(rules.broad_excepts(one) for one in held), f"{place} no longer needs it"
        assert len(reason) > 20, f"{place} must say why"


def test_tests_wait_for_events_and_never_sleep():
    assert complaints(rules.sleeps, "tests", "src/lochan/testing") == []


def test_every_limit_says_its_reason():
    found = [one for one in sources("src") if one.where.endswith("limits.py")]
    assert len(found) == 2
    assert [told for one in found for told in rules.unexplained_limits(one)] == []


def test_libraries_of_the_pipeline_are_imported_in_their_rooms_only():
    assert complaints(rules.strange_libraries, "src") == []
    for library, rooms in rules.ROOMS_OF_LIBRARIES.items():
        assert all((ROOT / room).exists() for room in rooms), library


def test_every_package_of_the_extra_has_its_rooms():
    packages = requirement_names(extra_requirements("spark"))
    modules = {name.partition("[")[0].replace("-", "_") for name in packages}
    assert modules <= set(rules.ROOMS_OF_LIBRARIES)


def test_the_import_contract_names_every_room_that_the_pipeline_leaves_alone():
    # The command line loads the pipeline when the demo comes to it, and only then.
    loads = {"__main__", "cli", "iceberg", "spark"}
    assert set(contract("spark")["source_modules"]) == {
        f"lochan.{room}" for room in rooms_from("__main__") if room not in loads and is_built(room)
    }


@pytest.mark.slow
def test_without_the_extra_all_other_rooms_can_be_imported():
    rooms = [f"lochan.{room}" for room in rooms_from("__main__") if is_built(room)]
    others = sorted({*rooms} - {"lochan.__main__", "lochan.spark", "lochan.iceberg"})
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *rules.ROOMS_OF_LIBRARIES, "--", *others],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_rooms_from_service_down_never_touch_the_world():
    forbidden = set(contract("doors")["forbidden_modules"])
    floors = tuple(f"src/lochan/{room}" for room in rooms_from("service"))
    found = [
        sentence
        for source in sources("src")
        if source.where.startswith(tuple(floor + end for floor in floors for end in ("/", ".py")))
        for sentence in rules.worldly_imports(source, forbidden)
    ]
    assert found == []


def test_the_import_contract_names_every_room_from_service_down():
    present = {f"lochan.{room}" for room in rooms_from("service") if is_built(room)}
    assert set(contract("doors")["source_modules"]) == present
