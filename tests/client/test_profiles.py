"""The file with profiles: only its owner reads it, and it is written whole or not at all."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lochan.base.errors import Invalid, InvalidUrl, NotFound, Unauthenticated
from lochan.client import Client
from lochan.client.credentials import find_credentials
from lochan.client.profiles import Profile, ProfileFile, profiles_path

URL = "https://catalog.example"
TOKEN = f"[a]\nurl = '{URL}'\ntoken = 'opensesame'\n"
WHOLE = Profile(
    url=URL,
    access_key_id="id",
    access_key_secret='a "quoted" \\ secret',
    repository="größe",
    insecure=True,
    expires_at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "credentials.toml"
    monkeypatch.setenv("LOCHAN_CREDENTIALS", str(path))
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_stored_is_read(path):
    file = ProfileFile()
    assert file.read() == {}
    file.store("whole", WHOLE)
    file.store("other", Profile(url="http://127.0.0.1:1", token="t"))
    assert ProfileFile().read() == {
        "whole": WHOLE,
        "other": Profile(url="http://127.0.0.1:1", token="t"),
    }
    assert file.remove("whole")
    assert not file.remove("whole")
    assert list(ProfileFile().read()) == ["other"]


def test_only_the_owner_can_read_the_file(path):
    ProfileFile().store("a", Profile(url=URL, token="t"))
    assert mode_of(path) == 0o600
    assert mode_of(path.parent) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["credentials.toml"]
    # What an editor has left is replaced, not followed.
    path.chmod(0o600)
    ProfileFile().store("b", Profile(url=URL, token="t"))
    assert mode_of(path) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_read_or_change_is_refused(path, mode):
    ProfileFile().store("a", Profile(url=URL, token="opensesame"))
    path.chmod(mode)
    for use in (lambda: ProfileFile().read(), lambda: Client(URL)):
        with pytest.raises(Invalid, match="chmod 600") as refusal:
            use()
        assert str(path) in refusal.value.message
        assert "opensesame" not in refusal.value.message
    with pytest.raises(Invalid, match="chmod 600"):
        ProfileFile().store("b", Profile(url=URL, token="t"))


def test_a_change_of_mode_is_noticed(path, monkeypatch):
    monkeypatch.setattr("lochan.client.secret_files._SETTLED_NS", -(10**18))
    file = ProfileFile()
    file.store("a", Profile(url=URL, token="t"))
    assert list(file.read()) == ["a"]
    path.chmod(0o644)
    with pytest.raises(Invalid, match="chmod 600"):
        file.read()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a", "is not TOML"),
        ("a = 1", "is not a file of profiles"),
        ("[a]\ntoken = 'opensesame'", "missing required field `url`"),
        (f"[a]\nurl = '{URL}'\ntoken = 1", "Expected `str`"),
        (f"[a]\nurl = '{URL}'\nsecret = 'opensesame'", "unknown field `secret`"),
        (f"[a]\nurl = '{URL}'", "needs a token or an access key"),
        (f"[a]\nurl = '{URL}'\naccess_key_id = 'x'", "half of an access key"),
        (f"{TOKEN}access_key_id = 'x'\naccess_key_secret = 'opensesame'", "and not both"),
        (f"[a]\nurl = '{URL}'\ntoken = 't'\nexpires_at = 2030-01-01T00:00:00", "time zone"),
        (f"['a b']\nurl = '{URL}'\ntoken = 't'", "the name of a profile"),
        ("# " + "x" * 2_000_000, "larger than"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_its_secrets_are_not_repeated(path, text, words):
    write(path, text)
    with pytest.raises(Invalid, match=words) as refusal:
        ProfileFile().read()
    assert "opensesame" not in refusal.value.message


def test_a_password_in_the_address_of_a_profile_is_refused(path):
    write(path, "[a]\nurl = 'https://ada:opensesame@catalog.example'\ntoken = 't'")
    with pytest.raises(InvalidUrl) as refusal:
        ProfileFile().read()
    assert "opensesame" not in refusal.value.message


@pytest.mark.parametrize("name", ["", "a b", "a.b", "../a", "-a", "x" * 65, "a\n"])
def test_what_is_no_name_of_a_profile_is_refused(path, name):
    with pytest.raises(Invalid, match="the name of a profile"):
        ProfileFile().store(name, Profile(url=URL, token="t"))
    with pytest.raises(Invalid, match="the name of a profile"):
        ProfileFile().get(name)


def test_a_profile_that_is_missing_is_named_with_its_file(path):
    with pytest.raises(NotFound, match=r"there is no profile 'a' in .*credentials\.toml"):
        ProfileFile().get("a")


def test_profiles_that_are_stored_at_once_are_all_there(path):
    names = [f"p{number}" for number in range(24)]

    def store(name: str) -> None:
        ProfileFile().store(name, Profile(url=URL, token=name))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store, names))
    assert sorted(ProfileFile().read()) == sorted(names)


def test_a_link_stays_a_link(path, tmp_path):
    target = tmp_path / "kept" / "secrets.toml"
    target.parent.mkdir()
    write(target, "")
    path.parent.mkdir()
    path.symlink_to(target)
    ProfileFile().store("a", Profile(url=URL, token="t"))
    assert path.is_symlink()
    assert "[a]" in target.read_text()


def test_the_usual_places_of_the_file(tmp_path, monkeypatch):
    monkeypatch.delenv("LOCHAN_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert profiles_path() == tmp_path / ".config/lochan/credentials.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert profiles_path() == tmp_path / ".config/lochan/credentials.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "x"))
    assert profiles_path() == tmp_path / "x/lochan/credentials.toml"


def test_a_place_that_cannot_be_written_is_named(path):
    path.parent.write_text("a file, not a directory")
    assert ProfileFile().read() == {}
    with pytest.raises(Invalid, match="cannot be written"):
        ProfileFile().store("a", Profile(url=URL, token="t"))


def test_a_login_that_has_ended_is_not_sent(path):
    now = datetime.now(UTC)
    file = ProfileFile()
    file.store("a", Profile(url=URL, token="t", expires_at=now + timedelta(hours=1)))
    found = find_credentials(URL)
    assert found is not None
    assert found.authorization() == "Bearer t"
    file.store("a", Profile(url=URL, token="t", expires_at=now - timedelta(hours=1)))
    with pytest.raises(Unauthenticated, match="`lochan login --profile a`"):
        found.authorization()
