"""What all requests of a server share."""

from __future__ import annotations

import asyncio

import msgspec

from lochan.base.limits.http import HTTP_BODY_BYTES_MAX
from lochan.transport.app import RepositoryOpener
from lochan.transport.group_flush import GroupFlush
from lochan.transport.lanes import Lanes
from lochan.transport.observers import RequestObservers
from lochan.transport.pool import Pool
from lochan.transport.quotas import Quotas
from lochan.transport.read_batches import ReadBatches
from lochan.transport.turns import Turns


class DriverContext(msgspec.Struct, frozen=True):
    """The loop, the pools, and everything else that a request goes through."""

    loop: asyncio.AbstractEventLoop
    repositories: RepositoryOpener
    default_repository: str
    inline: bool
    brief_pool: Pool
    long_pool: Pool
    lanes: Lanes
    read_batches: ReadBatches
    group_flush: GroupFlush
    observers: RequestObservers
    quotas: Quotas
    turns: Turns
    request_bytes_max: int = HTTP_BODY_BYTES_MAX
    show_traces: bool = False
