"""What has the form of a secret is hidden in texts, and hashes and names are not."""

from __future__ import annotations

import base64

import pytest

from lochan.base.masks import mask_bytes, mask_text
from lochan.testing.ports import SeededRandom

TOKEN = "lochan_" + "a" * 16 + "_" + "b7" * 26
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"
KEY = base64.b64encode(SeededRandom(1).random_bytes(32)).decode()


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        TOKEN[:-10],
        JWT,
        JWT.rpartition(".")[0],
        "b7" * 26,
        KEY,
        "Bearer abcdefgh123",
        "Basic dXNlcjpwYXNz",
        "bearer: abcdefgh123",
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "/access/v1/tokens/{}", 'reason="{}" more', "{}/x", "a {} b"]
)
def test_a_secret_is_hidden_wherever_it_is(secret, around):
    text = around.format(secret)
    hidden = mask_text(text)
    assert secret not in hidden
    assert secret.rpartition(" ")[2] not in hidden
    assert "***" in hidden
    assert mask_bytes(text.encode()) == hidden.encode()


@pytest.mark.parametrize(
    "text",
    [
        "/api/v2/trees/main@" + "0123456789abcdef" * 4 + "/history",
        "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d",
        "/access/v1/tokens/" + "a" * 16,
        "LOCH" + "A" * 16,
        "basic information about a bearer of news",
        "/api/v2/trees/eyJ/contents/sales.orders",
        "x" * 51,
        "",
    ],
)
def test_names_and_hashes_are_left_as_they_are(text):
    assert mask_text(text) == text
