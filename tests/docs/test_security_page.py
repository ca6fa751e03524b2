"""The page on security lists every action as policies name it, and the bounds that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from lochan.access.actions import GROUPS, LAKEFS, NESSIE
from lochan.access.policy import Action
from lochan.base.limits.access import ACCESS_STALE_MS

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_every_action_is_listed_with_its_names_and_its_group():
    table = PAGE.partition("| action |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:4]] for line in table]
    listed = {name: (checks, groups) for (name,), checks, groups in rows}
    assert listed == {
        action.value: (
            [name for name, actions in NESSIE.items() if action in actions],
            [name for name in ("read", "write") if action in GROUPS[name]],
        )
        for action in Action
    }


def test_every_name_of_lakefs_is_listed_with_what_it_means():
    table = PAGE.partition("| lakeFS's actions |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[re.findall(r"`([\w:]+)`", cell) for cell in line.split("|")[1:3]] for line in table]
    listed = {name: {Action(one) for one in actions} for names, actions in rows for name in names}
    assert listed == {name: set(actions) for name, actions in LAKEFS.items()}


def test_the_staleness_is_that_of_the_code():
    assert f"within {ACCESS_STALE_MS // 1_000} seconds" in PAGE
