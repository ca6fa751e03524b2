"""When the client sends a request again, how long it waits, and which error it raises at last."""

from __future__ import annotations

import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.base.limits.client import CLIENT_ATTEMPTS_MAX, CLIENT_RETRY_AFTER_MAX_S
from lochan.client.messages import HttpReply, HttpRequest
from lochan.client.retry import Attempts

READ = HttpRequest("GET", "/config")
WRITE = HttpRequest("POST", "/trees", body=b"{}", key="k")


def reply(status: int, **headers: str) -> HttpReply:
    return HttpReply(status, b"", {name.replace("_", "-"): text for name, text in headers.items()})


@pytest.mark.parametrize("status", [200, 204, 400, 404, 409, 500])
def test_a_final_reply_is_never_requested_again(status):
    assert Attempts(WRITE).after_reply(reply(status)) is None


def test_pauses_double_and_attempts_are_bounded():
    attempts = Attempts(READ)
    pauses = [attempts.after_failure("no", reached=False) for _ in range(CLIENT_ATTEMPTS_MAX - 1)]
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    with pytest.raises(Unavailable, match="no"):
        attempts.after_failure("no", reached=False)


def test_a_pause_that_the_server_states_is_kept_within_bounds():
    attempts = Attempts(READ)
    assert attempts.after_reply(reply(503, retry_after="2")) == 2.0
    assert attempts.after_reply(reply(503, retry_after="9" * 400)) == CLIENT_RETRY_AFTER_MAX_S
    assert attempts.after_reply(reply(503, retry_after="Fri, 01 Jan 2100 00:00:00 GMT")) == 0.4
    assert attempts.after_reply(reply(503)) == 0.8


def test_a_write_that_never_reached_the_server_is_unavailable():
    with pytest.raises(Unavailable):
        Attempts(WRITE, 1).after_failure("refused", reached=False)
    assert Attempts(WRITE, 1).after_reply(reply(503)) is None


@pytest.mark.parametrize("status", [429, 503])
def test_the_last_refusal_without_effect_has_the_servers_message(status):
    attempts = Attempts(WRITE, 2)
    assert attempts.after_reply(reply(status)) == 0.1
    assert attempts.after_reply(reply(status)) is None
    assert Attempts(READ, 1).after_reply(reply(504)) is None


@pytest.mark.parametrize("status", [502, 504])
def test_a_write_whose_reply_is_lost_for_good_is_unknown(status):
    with pytest.raises(Unknown):
        Attempts(WRITE, 1).after_failure("broken", reached=True)
    with pytest.raises(Unknown):
        Attempts(WRITE, 1).after_reply(reply(status))


@pytest.mark.parametrize("status", [429, 503])
def test_one_lost_reply_makes_all_later_refusals_unknown(status):
    attempts = Attempts(WRITE, 2)
    attempts.after_failure("broken", reached=True)
    with pytest.raises(Unknown):
        attempts.after_reply(reply(status))


@pytest.mark.parametrize("status", [401, 403, 404])
def test_after_a_lost_reply_a_reply_that_is_unrelated_to_its_effect_is_unknown(status):
    attempts = Attempts(WRITE)
    attempts.after_failure("broken", reached=True)
    with pytest.raises(Unknown, match=f"its reply was lost, and then the server answered {status}"):
        attempts.after_reply(reply(status))
    unheard = Attempts(WRITE)
    unheard.after_failure("refused", reached=False)
    assert unheard.after_reply(reply(status)) is None


@pytest.mark.parametrize("status", [200, 400, 409])
def test_after_a_lost_reply_a_reply_that_knows_the_effect_is_returned(status):
    attempts = Attempts(WRITE)
    attempts.after_failure("broken", reached=True)
    assert attempts.after_reply(reply(status)) is None


def test_a_read_is_never_unknown():
    with pytest.raises(Unavailable):
        Attempts(READ, 1).after_failure("broken", reached=True)


def test_a_write_that_is_sent_once_is_not_sent_again_when_it_may_have_happened():
    once = HttpRequest("POST", "/access/v1/users", body=b"{}", writes=True, once=True)
    assert Attempts(once).after_failure("no", reached=False) == 0.1
    assert Attempts(once).after_reply(reply(503)) == 0.1
    with pytest.raises(Unknown):
        Attempts(once).after_failure("broken", reached=True)
    for status in (502, 504):
        with pytest.raises(Unknown):
            Attempts(once).after_reply(reply(status))
