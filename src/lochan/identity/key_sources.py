"""From a setting to a source of signing keys: the path of a file, or an address."""

from __future__ import annotations

from lochan.access.signing_keys import KeySource
from lochan.base.ports import Clock
from lochan.identity.fetched_keys import FetchedKeys
from lochan.identity.key_fetch import KeyFetch
from lochan.identity.key_file import KeyFile


def open_keys(location: str, clock: Clock, *, any_address: bool = False) -> KeySource:
    """Opens the source of an issuer's keys.

    Invalid if the location cannot be used. Keys at an address are fetched here for the first time;
    if that fails, it is logged and tried again by the first requests.
    """
    if "://" not in location:
        return KeyFile(location, clock)
    fetch = KeyFetch(location, any_address=any_address)
    keys = FetchedKeys(str(fetch), fetch.fetch, clock)
    keys.refresh()
    return keys
