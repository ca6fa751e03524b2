"""A pyiceberg catalog on Lochan: tables and views by reference, several in one commit.

    from lochan.iceberg import LochanCatalog

    catalog = LochanCatalog("lake", uri="http://127.0.0.1:19120", warehouse="s3://bucket/lake")
    orders = catalog.load_table("shop.orders")
    catalog.at("v1").load_table("shop.orders").scan().to_arrow()
    with catalog.many("the orders of today") as many:
        many.load_table("shop.orders").append(rows)
        many.create_table("shop.lines", schema=schema)

Needs the extra `iceberg`. `lochan.catalog.iceberg` checks requirements and applies updates;
pyiceberg provides tables, manifests and file access.
"""

from lochan.iceberg.catalog import LochanCatalog, Many

__all__ = ["LochanCatalog", "Many"]
