"""Without the extra `access` a server starts, and what needs it names the command that adds it."""

from __future__ import annotations

import ast
import sys

import pytest

from lochan.access.logins import Logins
from lochan.access.oidc import OidcSettings, OidcVerifier
from lochan.access.secrets import KeyRing, access_installed
from lochan.access.signing_keys import KeySet, parse_key_set
from lochan.base.errors import Invalid
from lochan.testing.ports import ManualClock
from tests.architecture.tree import sources

RING = KeyRing([bytes(32)])
SETTINGS = OidcSettings(issuer="https://issuer.example", audience="lochan")


@pytest.mark.parametrize("library", ["jwt", "cryptography"])
@pytest.mark.parametrize(
    "use",
    [
        lambda: KeyRing([bytes(32)]),
        lambda: Logins(RING, ManualClock()),
        lambda: OidcVerifier(SETTINGS, KeySet({}), ManualClock()),
        lambda: parse_key_set(b'{"keys":[]}'),
    ],
    ids=["key ring", "logins", "issuer", "signing keys"],
)
def test_a_missing_library_is_named_with_the_command_that_adds_it(monkeypatch, library, use):
    assert access_installed()
    use()
    monkeypatch.setitem(sys.modules, library, None)
    assert not access_installed()
    with pytest.raises(Invalid, match=r"pip install 'lochan\[access\]'"):
        use()


def test_no_module_imports_the_libraries_when_it_is_loaded():
    found = []
    libraries = ("jwt", "cryptography")
    naming = [one for one in sources("src") if any(name in one.text for name in libraries)]
    assert len(naming) >= 4
    for source in naming:
        for node in source.tree.body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [
                f"{source.where}:{node.lineno}"
                for name in names
                if name.partition(".")[0] in libraries
            ]
    assert found == []
