"""What users see of access: secrets are returned once and never printed."""

from __future__ import annotations

import pytest

from lochan.model.access import AccessKey, Login, NewAccessKey, NewToken, Token


@pytest.mark.parametrize(
    "made",
    [
        NewToken(Token("t", "ada"), "canary"),
        NewAccessKey(AccessKey("k", "ada"), "canary"),
        Login("canary", 1),
    ],
)
def test_no_printed_form_of_a_new_credential_shows_its_secret(made):
    assert made.secret == "canary"
    assert "canary" not in f"{made} {made!r} {[made]}"
