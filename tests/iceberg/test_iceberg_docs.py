"""What docs/iceberg.md shows works."""

from __future__ import annotations

import re
from typing import Any

from pyiceberg.catalog import load_catalog

from lochan.iceberg import LochanCatalog
from tests.architecture.tree import ROOT
from tests.iceberg.rows import SCHEMA

PAGE = (ROOT / "docs/iceberg.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SERVER = "http://127.0.0.1:19120"


def test_every_example_runs_one_after_the_other(address, warehouse, capsys):
    assert len(EXAMPLES) == 4
    shared: dict[str, Any] = {}
    for example in EXAMPLES:
        text = example.replace(SERVER, address).replace("/data/lake", warehouse)
        # This server accepts every token.
        text = text.replace("lochan_…", "lochan_1_2")
        exec(compile(text, "docs/iceberg.md", "exec"), shared)
    assert capsys.readouterr().out == "3\n[('shop',)]\n"
    with LochanCatalog(uri=address, warehouse=warehouse) as catalog:
        orders = catalog.load_table("shop.orders").scan().to_arrow()
        assert sorted(orders["id"].to_pylist()) == [1, 2, 3, 4]
        assert catalog.load_table("shop.customers").scan().to_arrow().num_rows == 2


def test_the_configuration_that_is_shown_opens_a_catalog(address, warehouse):
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    lines = [line.strip().partition(": ") for line in text.splitlines()[2:]]
    properties = {name: value for name, _, value in lines}
    assert properties["uri"] == SERVER
    catalog = load_catalog("lake", **{**properties, "uri": address, "warehouse": warehouse})
    assert isinstance(catalog, LochanCatalog)
    with catalog:
        assert catalog.create_table("shop.orders", schema=SCHEMA).name() == ("shop", "orders")
