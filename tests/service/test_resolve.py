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
def desk() -> Bench:
    """Main has five commits, one a second."""
    one = Bench()
    one.fill("ns.a")
    for number in range(4):
        one.clock.advance_us(1_000_000)
        one.change("ns.a", f"a{number}", message=f"change {number}")
    return one


def at(desk: Bench, spec: str) -> str:
    page = desk.contents.entries(ME, parse_spec(spec), 1)
    assert page.reference is not None
    return page.reference.hash


def test_names_hashes_and_steps_lead_to_commits(desk):
    line = [entry.meta.hash or "" for entry in desk.log()]
    assert at(desk, "main") == at(desk, "-") == line[0]
    assert at(desk, line[2]) == at(desk, f"@{line[2]}") == at(desk, f"main@{line[2]}") == line[2]
    assert at(desk, "main~0") == line[0]
    assert at(desk, "main~3") == at(desk, "main~1~2") == at(desk, f"{line[1]}~2") == line[3]
    assert at(desk, "main^1") == at(desk, f"-@{line[0]}^1") == line[1]
    assert at(desk, "main~5") == EMPTY


def test_a_time_leads_to_the_youngest_commit_that_is_not_younger(desk):
    entries = desk.log()
    for entry in entries:
        moment = entry.meta.commit_time_us or 0
        assert at(desk, f"main*{moment // 1_000}") == entry.meta.hash
        assert at(desk, f"main*{moment // 1_000 + 999}") == entry.meta.hash
    assert at(desk, "main*2030-01-01T00:00:00Z") == entries[0].meta.hash
    with pytest.raises(ReferenceNotFound, match="as old as that"):
        at(desk, "main*1")


def test_the_second_parent_of_a_merge_is_what_was_merged(desk):
    desk.branch("side")
    aside = desk.fill("ns.s", branch="side").hash
    before = desk.head()
    desk.merge("side")
    assert at(desk, "main^2") == aside
    assert at(desk, "main^1") == before
    with pytest.raises(ReferenceNotFound, match="parents"):
        at(desk, "main^3")


@pytest.mark.parametrize(
    "spec", ["nowhere", "ab" * 32, f"main@{'ab' * 32}", "main~6", "main^2", "int/refs", "MAIN"]
)
def test_what_leads_nowhere_is_not_found(desk, spec):
    with pytest.raises(ReferenceNotFound):
        at(desk, spec)


@pytest.mark.parametrize(
    "spec",
    [
        *("main~", "main~x", "main~-1", "main*yesterday", "main@abc", "main" + "~1" * 11),
        *("", "@", "~1", "@~1", "*2030-01-01T00:00:00Z"),
    ],
)
def test_what_is_no_spec_is_invalid(desk, spec):
    with pytest.raises(Invalid):
        at(desk, spec)


def test_no_branch_is_emptied_by_naming_nothing(desk):
    with pytest.raises(Invalid, match="neither"):
        desk.references.assign(ME, "main", None, ReferenceSpec())
    with pytest.raises(Invalid, match="neither"):
        desk.references.create(ME, NewReference(kind="BRANCH", name="b", source=ReferenceSpec()))
    assert desk.state()


def test_a_hash_of_something_else_is_not_found(desk):
    """Values and nodes have hashes as commits have; they are none."""
    context = desk.repository.context
    view = context.views.load(desk.publisher("main")._fetch().row.pointer)
    ((_, element), *_) = read_page(context.nodes, view.tables, b"t", None, 1)
    value = value_at(element).hex()
    with pytest.raises(ReferenceNotFound):
        at(desk, value)
    with pytest.raises(ReferenceNotFound):
        desk.commit(desk.changed("ns.a", "x"), expected=value)


def test_a_hash_is_written_whole_in_either_case(desk):
    head = desk.head()
    assert at(desk, head.upper()) == head
    for spec in (head[:12], f"@{head[:12]}"):
        with pytest.raises((ReferenceNotFound, Invalid)):
            at(desk, spec)


def test_a_tag_leads_to_its_commit_whether_it_is_annotated_or_not(desk):
    note = Annotation(message="released")
    head = desk.head()
    desk.run(
        desk.references.create(
            ME, NewReference(kind="TAG", name="light", source=parse_spec("main"))
        )
    )
    rich = NewReference(kind="TAG", name="rich", source=parse_spec("main~1"), annotation=note)
    desk.run(desk.references.create(ME, rich))
    assert at(desk, "light") == head
    assert at(desk, "rich") == desk.log()[1].meta.hash
    assert at(desk, "rich~1") == desk.log()[2].meta.hash
    page = desk.contents.entries(ME, parse_spec("rich"), 1)
    assert page.reference is not None
    assert (page.reference.kind, page.reference.name) == ("TAG", "rich")


def test_the_empty_hash_is_a_commit_that_holds_nothing(desk):
    page = desk.contents.entries(ME, parse_spec(EMPTY))
    assert (page.items, page.token) == ((), None)
    assert desk.history.log(ME, parse_spec(EMPTY)).items == ()
