"""From what a user writes to a commit: names, hashes, relative steps."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.catalog.contents import value_at
from lochan.index.layers import read_page
from lochan.model.references import Annotation
from lochan.model.requests import NewReference
from lochan.model.specs import ReferenceSpec, parse_spec
from tests.service.bench import ME, Bench

EMPTY = EMPTY_ID.hex()


@pytest.fixture
def bench() -> Bench:
    """Main has five commits, one a second."""
    one = Bench()
    one.fill("ns.a")
    for number in range(4):
        one.clock.advance_us(1_000_000)
        one.change("ns.a", f"a{number}", message=f"change {number}")
    return one


def at(bench: Bench, spec: str) -> str:
    page = bench.contents.entries(ME, parse_spec(spec), 1)
    assert page.reference is not None
    return page.reference.hash


def test_names_hashes_and_steps_lead_to_commits(bench):
    line = [entry.meta.hash or "" for entry in bench.log()]
    assert at(bench, "main") == at(bench, "-") == line[0]
    assert at(bench, line[2]) == at(bench, f"@{line[2]}") == at(bench, f"main@{line[2]}") == line[2]
    assert at(bench, "main~0") == line[0]
    assert at(bench, "main~3") == at(bench, "main~1~2") == at(bench, f"{line[1]}~2") == line[3]
    assert at(bench, "main^1") == at(bench, f"-@{line[0]}^1") == line[1]
    assert at(bench, "main~5") == EMPTY


def test_a_time_leads_to_the_youngest_commit_that_is_not_younger(bench):
    entries = bench.log()
    for entry in entries:
        moment = entry.meta.commit_time_us or 0
        assert at(bench, f"main*{moment // 1_000}") == entry.meta.hash
        assert at(bench, f"main*{moment // 1_000 + 999}") == entry.meta.hash
    assert at(bench, "main*2030-01-01T00:00:00Z") == entries[0].meta.hash
    with pytest.raises(ReferenceNotFound, match="as old as that"):
        at(bench, "main*1")


def test_the_second_parent_of_a_merge_is_what_was_merged(bench):
    bench.branch("side")
    aside = bench.fill("ns.s", branch="side").hash
    before = bench.head()
    bench.merge("side")
    assert at(bench, "main^2") == aside
    assert at(bench, "main^1") == before
    with pytest.raises(ReferenceNotFound, match="parents"):
        at(bench, "main^3")


@pytest.mark.parametrize(
    "spec", ["nowhere", "ab" * 32, f"main@{'ab' * 32}", "main~6", "main^2", "int/refs", "MAIN"]
)
def test_what_leads_nowhere_is_not_found(bench, spec):
    with pytest.raises(ReferenceNotFound):
        at(bench, spec)


@pytest.mark.parametrize(
    "spec",
    [
        *("main~", "main~x", "main~-1", "main*yesterday", "main@abc", "main" + "~1" * 11),
        *("", "@", "~1", "@~1", "*2030-01-01T00:00:00Z"),
    ],
)
def test_what_is_no_spec_is_invalid(bench, spec):
    with pytest.raises(Invalid):
        at(bench, spec)


def test_no_branch_is_emptied_by_naming_nothing(bench):
    with pytest.raises(Invalid, match="neither"):
        bench.references.assign(ME, "main", None, ReferenceSpec())
    with pytest.raises(Invalid, match="neither"):
        bench.references.create(ME, NewReference(kind="BRANCH", name="b", source=ReferenceSpec()))
    assert bench.state()


def test_a_hash_of_something_else_is_not_found(bench):
    """Values and nodes have hashes as commits have; they are none."""
    context = bench.repository.context
    view = context.views.load(bench.publisher("main").fetch().row.pointer)
    ((_, element), *_) = read_page(context.nodes, view.tables, b"t", None, 1)
    value = value_at(element).hex()
    with pytest.raises(ReferenceNotFound):
        at(bench, value)
    with pytest.raises(ReferenceNotFound):
        bench.commit(bench.changed("ns.a", "x"), expected=value)


def test_a_hash_is_written_whole_in_either_case(bench):
    head = bench.head()
    assert at(bench, head.upper()) == head
    for spec in (head[:12], f"@{head[:12]}"):
        with pytest.raises((ReferenceNotFound, Invalid)):
            at(bench, spec)


def test_a_tag_leads_to_its_commit_whether_it_is_annotated_or_not(bench):
    note = Annotation(message="released")
    head = bench.head()
    bench.run(
        bench.references.create(
            ME, NewReference(kind="TAG", name="light", source=parse_spec("main"))
        )
    )
    rich = NewReference(kind="TAG", name="rich", source=parse_spec("main~1"), annotation=note)
    bench.run(bench.references.create(ME, rich))
    assert at(bench, "light") == head
    assert at(bench, "rich") == bench.log()[1].meta.hash
    assert at(bench, "rich~1") == bench.log()[2].meta.hash
    page = bench.contents.entries(ME, parse_spec("rich"), 1)
    assert page.reference is not None
    assert (page.reference.kind, page.reference.name) == ("TAG", "rich")


def test_the_empty_hash_is_a_commit_that_holds_nothing(bench):
    page = bench.contents.entries(ME, parse_spec(EMPTY))
    assert (page.items, page.token) == ((), None)
    assert bench.history.log(ME, parse_spec(EMPTY)).items == ()
