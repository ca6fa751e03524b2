"""Modules are named by nouns, and one name is one class, unless a reason is given."""

from __future__ import annotations

import pytest

from tests.architecture import names
from tests.architecture.tree import ROOT, Source, sources

# In one worker with the other rules, so that the source is parsed once.
pytestmark = pytest.mark.xdist_group("rules")


def planted(where: str, text: str = "") -> Source:
    return Source(where, text)


def test_modules_are_named_by_nouns_or_have_a_reason():
    assert [line for source in sources("src") for line in names.module_in_ing(source)] == []


def test_no_two_public_classes_share_a_name_without_a_reason():
    assert names.shared_class_names(sources("src")) == []


def test_every_module_and_class_with_a_reason_still_needs_it():
    home = ROOT / "src/lochan"
    assert [name for name in names.MODULES_IN_ING if not (home / name).is_file()] == []
    places = names.public_classes(sources("src"))
    assert [name for name in names.SHARED_CLASSES if len(places.get(name, [])) < 2] == []


def test_every_reason_is_a_sentence():
    for reason in [*names.MODULES_IN_ING.values(), *names.SHARED_CLASSES.values()]:
        assert len(reason.split()) > 4, reason


@pytest.mark.parametrize("name", ["handling", "spark/write/doing"])
def test_a_planted_module_in_ing_is_found(name):
    assert len(names.module_in_ing(planted(f"src/lochan/{name}.py"))) == 1
    assert names.module_in_ing(planted("src/lochan/spark/shingles.py")) == []


def test_a_planted_second_class_is_found():
    text = "class Planted:\n    pass\n\nclass _Hidden:\n    pass\n"
    two = [planted("src/lochan/kv/a.py", text), planted("src/lochan/base/b.py", text)]
    assert len(names.shared_class_names(two)) == 1
    assert names.shared_class_names(two[:1]) == []
    model = planted(f"{names.MODELS[0]}c.py", text)
    assert names.shared_class_names([two[0], model]) == []
