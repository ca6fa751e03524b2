"""The glossary is sorted, defines each term in one sentence, and lists only terms that are used."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest

from tests.architecture.tree import ROOT, sources

GLOSSARY = ROOT / "docs/glossary.md"
ENTRY = re.compile(r"- \*\*(?P<term>[^*]+)\*\*: (?P<text>.+)")


def entries(text: str) -> list[tuple[str, str]]:
    """Returns (term, definition) of each line of the list."""
    return [
        (found["term"], found["text"]) for found in map(ENTRY.fullmatch, text.splitlines()) if found
    ]


def faults(text: str) -> list[str]:
    """Returns what is wrong with the form of a glossary."""
    lines = [line for line in text.splitlines() if line.startswith(("-", "*", "|", " "))]
    found = [f"not an entry: {line!r}" for line in lines if not ENTRY.fullmatch(line)]
    terms = [term.casefold() for term, _ in entries(text)]
    for term, following in pairwise(terms):
        if following <= term:
            found.append(f"{following!r} must not come after {term!r}")
    for term, definition in entries(text):
        if not definition.endswith(".") or re.search(r"[.!?] [A-Z]", definition):
            found.append(f"{term!r} is not defined in one sentence")
        if not definition[0].isupper():
            found.append(f"the definition of {term!r} begins with a small letter")
    return found


@cache
def other_text() -> str:
    """Returns source and docs without the glossary, in small letters, white space as one space."""
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md") if page != GLOSSARY]
    together = "\n".join([*pages, *(source.text for source in sources("src"))])
    return re.sub(r"[\s_]+", " ", together.casefold())


def is_used(term: str) -> bool:
    # A plural and a verb form count; "ref-log" is also "reflog" in the source.
    forms = {term.casefold(), term.casefold().replace("-", ""), term.casefold().replace("-", " ")}
    return any(re.search(rf"\b{re.escape(form)}(s|es|ed|ned)?\b", other_text()) for form in forms)


def test_the_glossary_is_sorted_with_one_sentence_for_each_term():
    text = GLOSSARY.read_text("utf-8")
    assert len(entries(text)) >= 60
    assert faults(text) == []


def test_every_term_of_the_glossary_is_used_in_source_or_docs():
    terms = [term for term, _ in entries(GLOSSARY.read_text("utf-8"))]
    assert [term for term in terms if not is_used(term)] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/internals/architecture.md"])
def test_the_pages_that_a_reader_starts_with_link_to_the_glossary(page):
    assert "glossary.md)" in (ROOT / page).read_text("utf-8")


def test_terms_in_italics_on_the_page_of_the_architecture_are_defined():
    page = (ROOT / "docs/internals/architecture.md").read_text("utf-8")
    prose = " ".join(line for line in page.splitlines() if not line.startswith("|"))
    found = re.findall(r"(?<!\*)\*([a-z][^*]*)\*(?!\*)", prose)
    terms = {term for term, _ in entries(GLOSSARY.read_text("utf-8"))}
    assert len(found) > 20
    # Plurals and "peeled" are forms of the terms.
    assert [
        word for word in found if not {word, re.sub(r"e?[sd]$", "", word), word[:-1]} & terms
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "- **lane**: A queue.\n- **chain**: A list.\n",
        "- **lane**: A queue.\n- **lane**: A list.\n",
        "- **lane**: A queue. It is long.\n",
        "- **lane**: A queue\n",
        "- **lane**: a queue.\n",
        "- lane: A queue.\n",
    ],
)
def test_a_planted_fault_is_found(text):
    assert len(faults(text)) == 1


def test_a_term_that_is_not_used_is_found():
    assert is_used("compare-and-swap")
    assert not is_used("hover" + "craft")
