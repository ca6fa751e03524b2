"""Ids depend on the history alone, whatever the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.assembly import open_store
from tests.architecture.tree import project_settings
from tests.stores.available import URLS, fresh_urls
from tests.stores.repository_suite import history


@pytest.mark.slow
@pytest.mark.xdist_group("dynamodb")
def test_the_same_history_has_the_same_ids_on_every_store(tmp_path: Path, record_property) -> None:
    ids: dict[str, list[bytes]] = {}
    for scheme, url in fresh_urls(tmp_path).items():
        store = open_store(url)
        ids[scheme] = history(store)
        store.close()
    record_property("counted", f"same ids: {len(ids['memory'])} on {', '.join(ids)}")
    assert len(ids) >= 3
    assert len(set(ids["memory"])) > 40
    for scheme, found in ids.items():
        assert found == ids["memory"], scheme


def test_every_store_takes_part_in_that_comparison() -> None:
    shipped = project_settings()["project"]["entry-points"]["lochan.stores"]
    assert set(URLS) == set(shipped)
