"""Blocks in S3 or a compatible store: `s3://BUCKET/PREFIX?endpoint=…`."""

from __future__ import annotations

from importlib.util import find_spec

from lochan.base.errors import InvalidUrl
from lochan.blocks.s3.address import read_address
from lochan.blocks.s3.place import S3Blocks
from lochan.kv.url import StoreUrl
from lochan.staging.block_store import BlockStore, PlaceOptions


def open_place(url: StoreUrl, options: PlaceOptions) -> BlockStore:
    """Opens a prefix of a bucket; the bucket must exist, which the first request finds out."""
    if find_spec("botocore") is None:
        raise InvalidUrl("places on S3 need botocore, which is not installed: install lochan[s3]")
    return S3Blocks(read_address(url), options)
