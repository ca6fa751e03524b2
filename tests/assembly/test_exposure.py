"""Whom a server serves: the matrix of address, set-up, TLS and the flag that gives them up."""

from __future__ import annotations

import itertools

import pytest

from lochan.assembly.exposure import NO_AUTHENTICATION, NO_TLS, check_exposure, warn_exposure
from lochan.base.errors import Invalid
from lochan.settings import Settings

HERE = ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost")
# What looks like this machine in one reading only.
AMBIGUOUS = ("127.1", "2130706433", "0x7f.0.0.1", "::ffff:10.1.2.3", "", "localhost.")
ELSEWHERE = (*AMBIGUOUS, "0.0.0.0", "::", "10.1.2.3", "catalog.example", "localhost.example")


def settings(host: str, tls: bool, flag: bool) -> Settings:
    certificate = "server.pem" if tls else ""
    return Settings(
        host=host, tls_certificate=certificate, tls_key=certificate, insecure_remote=flag
    )


@pytest.mark.parametrize(
    ("host", "authenticates", "tls", "flag"),
    list(itertools.product(HERE + ELSEWHERE, *[(False, True)] * 3)),
)
def test_other_machines_are_served_with_authentication_and_tls_or_with_the_flag(
    host, authenticates, tls, flag
):
    chosen = settings(host, tls, flag)
    missing = [
        text for given, text in ((authenticates, NO_AUTHENTICATION), (tls, NO_TLS)) if not given
    ]
    if host in HERE or not missing:
        assert check_exposure(chosen, authenticates=authenticates) == ""
    elif flag:
        assert check_exposure(chosen, authenticates=authenticates) == "; ".join(missing)
    else:
        with pytest.raises(Invalid) as refused:
            check_exposure(chosen, authenticates=authenticates)
        for text in (repr(host), "only this machine is served", *missing, "--insecure-remote"):
            assert text in refused.value.message
        assert ("setup_user" in refused.value.message) == (not authenticates)
        assert ("tls_certificate" in refused.value.message) == (not tls)


@pytest.mark.parametrize(("host", "tls"), list(itertools.product(HERE + ELSEWHERE, (False, True))))
def test_before_the_store_is_open_only_tls_is_checked(host, tls):
    chosen = settings(host, tls, False)
    if host in HERE or tls:
        assert check_exposure(chosen, authenticates=None) == ""
    else:
        with pytest.raises(Invalid, match="tls_certificate"):
            check_exposure(chosen, authenticates=None)


@pytest.mark.parametrize(
    ("authenticates", "tls", "expected"),
    [
        (False, False, "authentication=off tls=off"),
        (True, False, "authentication=on tls=off"),
        (False, True, "authentication=off tls=on"),
        (True, True, None),
    ],
)
def test_what_is_given_up_is_a_warning_in_the_log(authenticates, tls, expected, caplog):
    chosen = settings("0.0.0.0", tls, True)
    given_up = check_exposure(chosen, authenticates=authenticates)
    warn_exposure(chosen, given_up, authenticates=authenticates)
    if expected is None:
        assert caplog.records == []
    else:
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().endswith(f"host=0.0.0.0 {expected}")
        assert given_up in record.getMessage()
