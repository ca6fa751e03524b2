"""Filters: what they see, what they refuse, and that nothing but Invalid ever comes of them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Bug, Invalid
from lochan.model.commits import CommitMeta, Delete, LogEntry, Put
from lochan.model.contents import Namespace, OtherContent
from lochan.model.references import Reference, ReferenceMetadata
from lochan.model.results import DiffEntry, Entry
from lochan.rules import filters
from lochan.rules.filters import Filter, FilterKind, compile_filter, filters_installed
from tests.service.workbench import table

LOG, ENTRIES = FilterKind.LOG, FilterKind.ENTRIES
REFERENCES, DIFF = FilterKind.REFERENCES, FilterKind.DIFF

META = CommitMeta(
    message="add tables",
    authors=("alice", "bob"),
    signed_off_by=("carol",),
    author_time_us=1_600_000_000_000_000,
    committer="server",
    commit_time_us=1_700_000_000_123_456,
    properties=(("empty", ()), ("team", ("red", "blue"))),
    hash="ab" * 32,
    parents=("cd" * 32,),
)
OPERATIONS = (
    Put(key=("a", "b.b", "t"), content=table(content_id="id-1")),
    Delete(key=("gone",)),
)
COMMIT = LogEntry(META, "cd" * 32, OPERATIONS)
ENTRY = Entry(("a", "b.b", "t"), "ICEBERG_TABLE", "id-1")


def compiled(text: str, kind: FilterKind) -> Filter:
    found = compile_filter(text, kind)
    assert found is not None
    return found


def on_log(text: str, entry: LogEntry = COMMIT) -> bool:
    return compiled(text, LOG).accepts_log(entry)


def on_entry(text: str, entry: Entry = ENTRY) -> bool:
    return compiled(text, ENTRIES).accepts_entry(entry)


def on_reference(text: str, reference: Reference) -> bool:
    return compiled(text, REFERENCES).accepts_reference(reference)


def refused(text: str, kind: FilterKind = LOG) -> str:
    with pytest.raises(Invalid) as caught:
        compile_filter(text, kind)
    return caught.value.message


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_filter_is_none(text):
    assert compile_filter(text, LOG) is None


@pytest.mark.parametrize(
    "text",
    [
        "entry.contentType == 'ICEBERG_TABLE' && size(entry.keyElements) == 3",
        "entry.key == 'a.b.b.t'",
        "entry.encodedKey == 'a.b\x1db.t'",
        "entry.encodedKey.startsWith('a.b\x1db.')",
        "entry.keyElements == ['a', 'b.b', 't']",
        "entry.namespace == 'a.b\\u001db'",
        "entry.namespaceElements == ['a', 'b.b']",
        'entry.name == "t"',
        "entry['name'] == 't'",
        "entry.keyElements[1] == 'b.b'",
        "entry.keyElements.exists(one, one == 'b.b')",
        "entry.contentType in ['NAMESPACE', 'ICEBERG_TABLE']",
        "['x', 't'].exists(name, entry.name == name)",
        "entry.name.matches('^[a-z]$') && !entry.name.matches(r'\\d')",
        "(entry.name == 'x' ? false : true)",
    ],
)
def test_entries_are_judged_by_key_and_type(text):
    assert on_entry(text) is True
    assert on_entry(f"!({text})") is False


def test_a_key_of_one_element_has_an_empty_namespace():
    entry = Entry(("t",), "NAMESPACE", "id")
    assert on_entry("entry.namespace == '' && entry.namespaceElements.size() == 0", entry)


@pytest.mark.parametrize(
    "text",
    [
        "commit.author == 'alice'",
        "commit.author in ['zoe', 'alice'] && commit.committer == 'server'",
        "commit.authors == ['alice', 'bob']",
        "commit.signedOffBy == 'carol' && commit.allSignedOffBy == ['carol']",
        "commit.message.contains('tables')",
        "commit.author.matches('al.*-?(ce|x)')",
        "commit.hash == '" + "ab" * 32 + "'",
        "commit.parentCommitHashes == ['" + "cd" * 32 + "']",
        "commit.commitTime == '2023-11-14T22:13:20.123456Z'",
        "timestamp(commit.commitTime) > timestamp('2023-11-14T22:13:20Z')",
        "timestamp(commit.authorTime) < timestamp(commit.commitTime)",
        "timestamp(commit.commitTime).getFullYear() == 2023",
        "commit.properties['team'] == 'red' && commit.properties.team == 'red'",
        "commit.allProperties['team'] == ['red', 'blue']",
        "'team' in commit.properties && !('empty' in commit.properties)",
        "has(commit.message) && commit.message != 'create namespaces'",
        "operations.exists(op, op.type == 'PUT')",
        "operations.exists(op, op.key.startsWith('a.b.b.') && op.name == 't')",
        "operations.exists_one(op, op.content.type == 'ICEBERG_TABLE' && op.content.id == 'id-1')",
        "operations.exists(op, op.type == 'DELETE' && op.encodedKey == 'gone')",
        "!operations.all(op, op.namespace == '')",
        "size(operations) == 2 && operations.size() == 2",
        "operations[0].name == 't' && operations[1].namespaceElements.size() == 0",
        "operations[0].keyElements.exists(one, one == 'a')",
        "operations.map(op, op.name) == ['t', 'gone']",
        "operations.filter(op, op.type == 'PUT').size() == 1",
        "operations.exists(op, op == operations[1])",
    ],
)
def test_commits_are_judged_by_what_is_said_and_done(text):
    assert on_log(text) is True
    assert on_log(f"!({text})") is False


@pytest.mark.parametrize(
    "text",
    [
        "ref.name == 'dev' && ref.type == 'BRANCH' && refType == 'BRANCH'",
        "ref.name.startsWith('d')",
        "ref.hash == '" + "ab" * 32 + "'",
        "commit.message == 'add tables'",
        "refMeta.numTotalCommits > 5 && refMeta.numCommitsAhead == 2",
        "metadata.numCommitsBehind == 1 && ref.metadata.numTotalCommits == 7",
        "refMeta.commonAncestorHash.startsWith('ef')",
        "refMeta.commitMetaOfHEAD.author == 'alice'",
    ],
)
def test_references_are_judged_by_name_metadata_and_last_commit(text):
    metadata = ReferenceMetadata(META, 7, 2, 1, "ef" * 32)
    reference = Reference("BRANCH", "dev", "ab" * 32, metadata)
    assert on_reference(text, reference) is True
    assert on_reference(f"!({text})", reference) is False


def test_a_reference_without_commits_is_judged_as_one_that_says_nothing():
    bare = Reference("BRANCH", "new", "00" * 32, ReferenceMetadata(None, 0))
    assert on_reference("commit.message == '' && commit.author == ''", bare)
    assert not on_reference(
        "timestamp(commit.commitTime) > timestamp('2020-01-01T00:00:00Z')", bare
    )


def test_differences_are_judged_by_their_key():
    entry = DiffEntry(("1", "t"), None, table())
    assert compiled("key.namespace=='1'", DIFF).accepts_diff(entry)
    assert not compiled("key.namespace=='2'", DIFF).accepts_diff(entry)


def test_contents_of_unknown_types_are_judged_by_the_name_of_their_type():
    other = OtherContent("HUDI", "id-9", {"x": 1})
    entry = LogEntry(META, "", (Put(key=("h",), content=other),))
    assert on_log(
        "operations.exists(op, op.content.type == 'HUDI' && op.content.id == 'id-9')", entry
    )


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("commit.author == 'x'", False),
        ("commit.message == 'operations'", False),
        ("true", False),
        ("size(operations) == 0", True),
        ("commit.author == 'x' || operations.exists(op, true)", True),
    ],
)
def test_a_filter_knows_whether_it_reads_operations(text, reads):
    assert compiled(text, LOG).reads_operations is reads


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("ref.name == 'metadata'", False),
        ("refType == 'TAG'", False),
        ("commit.author == 'x'", True),
        ("has(refMeta.numTotalCommits)", True),
        ("ref.metadata.numTotalCommits > 1", True),
        ("ref['name'] == 'x'", True),
    ],
)
def test_a_filter_knows_whether_it_reads_metadata(text, reads):
    assert compiled(text, REFERENCES).reads_metadata is reads


def test_a_filter_that_reads_operations_is_never_judged_without_them():
    with pytest.raises(Bug):
        on_log("size(operations) == 0", LogEntry(META, ""))


def test_a_filter_judges_only_its_own_kind():
    with pytest.raises(Bug):
        compiled("true", LOG).accepts_entry(ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        "commit.properties['nobody'] == 'x'",
        "commit.allProperties.nobody.size() == 0",
        "commit.authors[7] == 'x'",
        "!(commit.properties['nobody'] == 'x')",
        "operations[7].type == 'PUT'",
    ],
)
def test_an_element_that_lacks_what_is_looked_up_is_not_accepted(text):
    assert on_log(text) is False


@pytest.mark.parametrize(
    "text",
    [
        "commit.message",
        "1",
        "[true]",
        "null",
        "commit.message == 'add tables' ? 1 : 2",
        "timestamp(commit.message) > timestamp('2020-01-01T00:00:00Z')",
        "1 / 0 == 1",
        "9223372036854775807 + size(operations) > 0",
        "commit.message < 1",
        "commit.message.startsWith(1)",
        "commit.message.matches('(')",
        "int(commit.message) == 1",
        "operations.exists(op, op.name)",
        "duration('x') == duration('y')",
        "!commit.message",
    ],
)
def test_what_fails_while_judging_is_the_texts_fault(text):
    found = compiled(text, LOG)
    with pytest.raises(Invalid):
        found.accepts_log(COMMIT)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("commit.author ==", "line 1, column 17"),
        ("commit.author = 'x'", "character 15"),
        ("commit.author == 'x' 'y'", "line 1, column 22"),
        ("commit.author\n== == 'x'", "line 2, column 4"),
        ("(commit.author == 'x'", "character 1"),
        ("commit.author == 'x')", "character 21"),
        ("commit.author == 'x", "character 18"),
        ("commit.author == 'x'''", "character 18"),
        ("commit.author == b'x'", "character 18"),
        ("commit.author == 1x", "character 18"),
        ("commit.author == é", "character 18"),
        ("commit.author == {'a': 1}.a", "character 18"),
        ("commit.author == 'x' // note", "character 22"),
        ("commit.allProperties.x // operations\n.map(y, y) == []", "character 24"),
        (".commit.author == 'x'", "character 1"),
        ("@commit", "character 1"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_the_place(text, place):
    assert place in refused(text)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("invalid_script", LOG, "undeclared reference to 'invalid_script'"),
        ("entry.name == 'x'", LOG, "undeclared reference to 'entry'"),
        ("operations.exists(op, true)", ENTRIES, "undeclared reference to 'operations'"),
        ("op.name == 'x'", LOG, "undeclared reference to 'op'"),
        ("operations.exists(op, true) && op.name == 'x'", LOG, "undeclared reference to 'op'"),
        ("entry.nmae == 'x'", ENTRIES, "undefined field 'nmae'"),
        ("refType.name == 'x'", REFERENCES, "undefined field 'name'"),
        ("operations.exists(op, op.author == 'x')", LOG, "undefined field 'author'"),
        ("operations[0].author == 'x'", LOG, "undefined field 'author'"),
        ("entry.name.lowerAscii() == 'x'", ENTRIES, "'lowerAscii'"),
        ("exists(x, true)", LOG, "runs over operations"),
        ("operations.exists(true)", LOG, "begins with the name of its variable"),
        ("operations.exists(commit, true)", LOG, "is taken"),
        ("operations.exists(true, true)", LOG, "is taken"),
    ],
)
def test_names_that_are_not_there_are_told(text, kind, words):
    assert words in refused(text, kind)


def test_a_filter_is_compiled_once():
    assert compiled("commit.author == 'once'", LOG) is compiled("commit.author == 'once'", LOG)
    assert compiled("true", LOG) is not compiled("true", ENTRIES)


def test_a_text_that_is_no_text_is_refused():
    refused("commit.author == '\ud800'")


def test_without_the_extra_the_error_names_it(monkeypatch):
    filters._compile.cache_clear()
    monkeypatch.setitem(sys.modules, "cel", None)
    assert not filters_installed()
    with pytest.raises(Invalid, match=r"lochan\[filters\]"):
        compile_filter("commit.author == 'x'", LOG)


WORDS = """
commit operations op commit.message commit.authors operations[0] op.key .keyElements ( ) [ ] , . &&
|| == < + - ! ? : in 'a' r'a' 1 0 1.5 true null size( exists( map( filter( all( x has( timestamp(
operations.exists(op, operations.map(x, [1,2].exists(y, matches( int string( 'a'.matches('b')
commit.properties['k'] duration( {
"""
PIECES = st.sampled_from(WORDS.split())


@given(st.lists(PIECES, min_size=1, max_size=12), st.booleans())
def test_whatever_the_text_the_answer_is_yes_no_or_invalid(pieces, closed):
    text = " ".join(pieces)
    if closed:
        text += ")" * (text.count("(") - text.count(")"))
    try:
        verdict = on_log(text)
    except Invalid:
        return
    assert verdict in (True, False)


@given(st.text(max_size=40))
def test_any_text_at_all_is_judged_or_refused(text):
    try:
        found = compile_filter(text, ENTRIES)
        verdict = found is None or found.accepts_entry(ENTRY)
    except Invalid:
        return
    assert verdict in (True, False)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_a_key_compares_with_itself_whatever_it_is_called(elements):
    entry = Entry(tuple(elements), "NAMESPACE", "id")
    same = compiled("entry.key.endsWith(entry.name) && entry.name in entry.keyElements", ENTRIES)
    assert same.accepts_entry(entry)


def test_what_is_never_named_is_never_made():
    """A namespace without an id has no text for `id`; it must not matter where nobody asks."""
    put = Put(key=("n",), content=Namespace(elements=("n",)))
    assert on_log("operations.exists(op, op.content.id == '')", LogEntry(META, "", (put,)))
