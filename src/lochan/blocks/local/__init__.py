"""Blocks in a local directory: `file:PATH`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote_to_bytes

from lochan.base.errors import InvalidUrl
from lochan.blocks.local.place import LocalBlocks
from lochan.kv.url import StoreUrl
from lochan.staging.block_store import BlockStore, PlaceOptions


def open_place(url: StoreUrl, options: PlaceOptions) -> BlockStore:
    """Opens the directory, creating it if its parent exists."""
    text = url.rest
    if text.startswith("//"):
        if not text.startswith("///"):
            raise InvalidUrl("a directory has no host: write file:PATH or file:///PATH")
        # Only the form of a URL is percent-encoded; file:PATH is a path as it is.
        text = unquote_to_bytes(text.removeprefix("//")).decode("utf-8", "surrogateescape")
    if not text or "\0" in text:
        raise InvalidUrl("the address of a directory has no path: write file:PATH")
    return LocalBlocks(Path(text), options)
