"""Addresses of Cassandra stores: what they may contain, and no password in any message."""

from __future__ import annotations

import pytest

from lochan.base.errors import InvalidUrl
from lochan.kv.url import parse_store_url
from lochan.stores.cassandra.address import CassandraAddress, read_address

SECRET = "hunter2secret"


def read(rest: str) -> CassandraAddress:
    return read_address(parse_store_url(f"cassandra:{rest}"))


def test_an_address_has_hosts_a_keyspace_and_parameters() -> None:
    rest = f"//me:{SECRET}%40@h1:9142,h2,[::1]/lake?datacenter=dc1&serial=datacenter&table=t"
    address = read(f"{rest}&calls=7&replication=5&tls=true&tls_ca_file=/a%20b")
    assert (address.hosts, address.port) == (("h1", "h2", "::1"), 9142)
    assert (address.keyspace, address.table, address.datacenter) == ("lake", "t", "dc1")
    assert (address.user, address.password()) == ("me", SECRET + "@")
    assert (address.calls, address.replication, address.local, address.tls) == (7, 5, True, True)
    assert address.tls_files == ("/a b", None, None)
    assert SECRET not in repr(address)
    assert address.scrub(f"x {SECRET}@ y") == "x *** y"


def test_most_of_it_has_defaults() -> None:
    address = read("//h/lake")
    assert (address.hosts, address.port, address.user) == (("h",), 9042, "")
    assert (address.table, address.calls, address.replication) == ("lochan", 24, None)
    assert (address.local, address.tls, address.datacenter) == (False, False, None)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "h/lake",
        "//h",
        "//h/",
        "///lake",
        "//h/Lake",
        "//h/system_auth",
        "//h/a-b",
        f"//me:{SECRET}/x@h/lake",
        f"//me:{SECRET}@x@h/lake",
        f"//me@h/lake?x={SECRET}",
        f"//:{SECRET}@h/lake",
        "//h:0/lake",
        "//h:65536/lake",
        "//h:1,g:2/lake",
        "//h,/lake",
        "//h/lake?consistency=ONE",
        "//h/lake?table=a&table=b",
        "//h/lake?table=T",
        "//h/lake?serial=none",
        "//h/lake?tls=yes",
        "//h/lake?tls_ca_file=/x",
        "//h/lake?tls=true&tls_ca_file=",
        "//h/lake?calls=0",
        "//h/lake?calls=201",
        "//h/lake?replication=10",
        "//h/lake?datacenter=a'b",
    ],
)
def test_what_is_no_address_is_refused_without_its_password(rest: str) -> None:
    with pytest.raises(InvalidUrl) as error:
        read(rest)
    assert SECRET not in str(error.value)
