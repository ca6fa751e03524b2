"""Followers are readers: what a caller may not read never appears in its stream.

Every hidden name, key, message and path contains a mark that is searched in everything that comes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import httpx
import pytest

from lochan.model.access import Statement
from tests.events.streamed import StreamServer, stream_server
from tests.security.guarded_wire import allow

MARK = "canary"
READABLE = ("open", "dev/*")
FREE = ("free-a", "free-b", "free-d", "free-hidden")


@pytest.fixture(scope="module")
def served() -> Iterator[StreamServer]:
    with stream_server() as server:
        yield server


@pytest.fixture(scope="module")
def little(served: StreamServer) -> str:
    """Reads some keys of `open` and `dev/*`, and sees that `seen` exists."""
    return served.user(
        "lee",
        allow("view_reference", references=(*READABLE, "seen")),
        allow("read_log", references=READABLE),
        allow("read_entries", references=READABLE, keys=(*FREE, "name-only"), paths=("in/*",)),
        allow("read_content", references=READABLE, keys=FREE, paths=("in/*",)),
    )


def raw_stream(served: StreamServer, secret: str, token: str, reference: str) -> str:
    params = {"reference": reference, "follow": "false"}
    with served.client(secret) as client:
        answer = client.get("/events/v1", params=params, headers={"last-event-id": token})
    assert answer.status_code == 200, answer.text
    return answer.text


def spelled_out(text: str) -> str:
    """Returns a stream with its ids decoded, too."""
    shown = [text]
    for line in text.splitlines():
        if line.startswith("id: "):
            token = line.removeprefix("id: ").partition(".")[0]
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            shown += [raw.decode("latin-1"), raw.hex()]
    return "\n".join(shown)


def test_nothing_hidden_appears(served, little):
    for name in ("open", "dev/1", "seen", f"{MARK}-branch"):
        served.branch(name)
    with served.follow(secret=little, reference="*") as followed:
        every = followed.position()
    with served.follow(secret=little, reference="open") as followed:
        single = followed.position()
    hidden = f"{MARK}-branch"
    served.commit("open", "free-a", f"{MARK}-key", "name-only", message="shown")
    served.commit(hidden, "free-hidden", message=f"{MARK} message")
    served.commit("seen", "free-seen", message=f"{MARK} message of a log")
    for path in ("in/a", f"{MARK}/b"):
        place = f"/files/v1/refs/open/file?path={path}"
        served.http.put(place, content=b"1").raise_for_status()
    body = {"commitMeta": {"message": "files"}, "operations": []}
    served.http.post("/files/v1/refs/open/commit", json=body).raise_for_status()
    served.merge("dev/1", "open")
    served.merge("open", hidden)
    served.commit("open", "-name-only", f"-{MARK}-key", message="removed")
    hashes = {served.head(name) for name in (hidden, "seen")}
    for reference, token in (("*", every), ("open", single)):
        shown = spelled_out(raw_stream(served, little, token, reference))
        # The message of a merge is that of a commit of `open`, which may be read.
        assert MARK not in shown.replace(f"Merge {hidden} into open", ""), reference
        assert not [one for one in hashes if one in shown]
        assert '"message":"shown"' in shown
    found = served.past(single, secret=little, reference="open")
    events = [(one.event, one.data.get("key") or one.data.get("path")) for one in found]
    assert events == [
        ("COMMIT", None),
        ("CONTENT_STORED", {"elements": ["free-a"]}),
        ("COMMIT", None),
        ("FILE_STORED", "in/a"),
        ("MERGE", None),
        ("CONTENT_STORED", {"elements": ["free-hidden"]}),
        ("COMMIT", None),
        ("CONTENT_REMOVED", {"elements": ["name-only"]}),
    ]
    listed = [one["key"]["elements"] for one in found[0].data["operations"]]
    assert listed == [["free-a"], ["name-only"]]
    merge = next(one for one in found if one.event == "MERGE")
    assert merge.data["leftOut"] == ["source", "sourceHash", "commonAncestor"]


def test_the_ids_of_a_stream_go_on_for_callers_with_few_rights(served, little):
    served.branch("dev/2")
    with served.follow(secret=little, reference="dev/*") as followed:
        start = followed.position()
    served.commit("dev/2", "free-b", f"{MARK}-c", "free-d")
    whole = served.past(start, secret=little, reference="dev/*")
    assert [one.event for one in whole] == ["COMMIT", "CONTENT_STORED", "CONTENT_STORED"]
    for number, one in enumerate(whole, 1):
        rest = served.past(one.id, secret=little, reference="dev/*")
        assert [each.data["id"] for each in rest] == [each.data["id"] for each in whole][number:]


def refusal(served: StreamServer, secret: str, reference: str, token: str = "") -> int:
    headers = {"last-event-id": token} if token else {}
    with served.client(secret) as client:
        return client.get(
            "/events/v1", params={"reference": reference}, headers=headers
        ).status_code


def test_a_stream_needs_the_right_to_read_the_log(served, little):
    with served.follow(reference="main") as followed:
        token = followed.position()
    for known in ("", token):
        assert refusal(served, little, "main", known) == 404
        assert refusal(served, "nothing", "main", known) == 401
    assert refusal(served, little, "never") == 404
    served.branch("seen-too")
    viewer = served.user("vic", allow("view_reference"))
    assert refusal(served, viewer, "main") == 403
    elsewhere = served.user("eli", allow("read", repositories=("elsewhere",)))
    for reference in ("main", "*"):
        assert refusal(served, elsewhere, reference) == 404
    assert httpx.get(f"{served.url}/events/v1", trust_env=False).status_code == 401


def test_rights_that_are_taken_away_end_a_stream(served):
    reader = served.user("rob", Statement(effect="allow", actions=("read",)))
    control = served.access.control
    with served.follow(secret=reader) as one, served.follow(secret=reader, reference="*") as other:
        one.position()
        other.position()
        served.commit("main", "before")
        assert len(one.take(2)) == len(other.take(2)) == 2
        control.detach(served.call, "user", "rob", "of-rob")
        served.commit("main", f"{MARK}-after")
        for followed in (one, other):
            last = [message for message in followed.messages() if message.event]
            assert [message.event for message in last] == ["problem"]
            assert last[0].data["status"] == 404


def test_fewer_rights_count_for_what_follows(served):
    everything = Statement(effect="allow", actions=("read",))
    reader = served.user("sue", everything)
    control = served.access.control
    with served.follow(secret=reader) as followed:
        followed.position()
        served.commit("main", "sue-1")
        followed.take(2)
        little = Statement(effect="allow", actions=("read",), keys=("sue-2",))
        policy = control.get_policy(served.call, "of-sue")
        control.put_policy(served.call, type(policy)("of-sue", (little,)))
        served.commit("main", f"{MARK}-2", "sue-2")
        found = followed.take(2)
    assert [one.data.get("key") for one in found] == [None, {"elements": ["sue-2"]}]
    assert MARK not in str([one.data for one in found])


def test_a_token_that_is_removed_ends_its_stream(served):
    reader = served.user("tom", Statement(effect="allow", actions=("read",)))
    with served.follow(secret=reader) as followed:
        followed.position()
        control = served.access.control
        for token in control.list_tokens(served.call, "tom").items:
            control.delete_token(served.call, token.id)
        # The sign of life finds it, without any event.
        last = [message for message in followed.messages() if message.event]
        assert [(one.event, one.data["status"]) for one in last] == [("problem", 401)]
