"""The three speeds of tests: what `make unit` leaves out, and the profiles of counts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests import profile, speed
from tests.architecture.tree import ROOT


def test_contributing_names_the_folders_of_slow_tests():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (stated,) = re.findall(r"A test is \*slow\* if it is in ([^.]*), or if", text)
    folders = {name.removeprefix("tests/") for name in re.findall(r"`([\w/]+)`", stated)}
    assert folders == set(speed.SLOW_FOLDERS)
    assert all((ROOT / "tests" / folder).is_dir() for folder in speed.SLOW_FOLDERS)


@pytest.mark.parametrize("name", speed.SLOW_FOLDERS)
def test_a_test_in_such_a_folder_is_slow_without_a_mark(name):
    assert speed.is_slow_folder(ROOT / "tests" / name / "more" / "test_new.py")
    assert not speed.is_slow_folder(ROOT / "tests" / "unit" / name / "test_new.py")
    assert not speed.is_slow_folder(ROOT / name)


def test_a_test_that_is_not_slow_cannot_start_a_process():
    with pytest.raises(AssertionError, match="not marked `slow`"):
        subprocess.run([sys.executable, "-c", ""], check=True)


def test_a_test_that_is_not_slow_cannot_signal_a_process():
    with pytest.raises(AssertionError, match="not marked `slow`"):
        os.kill(os.getpid(), signal.SIGCONT)


@pytest.mark.slow
def test_a_slow_test_may_do_both():
    subprocess.run([sys.executable, "-c", ""], check=True)
    os.kill(os.getpid(), signal.SIGCONT)


@pytest.mark.parametrize(("name", "expected"), [("default", 3), ("deep", 30)])
def test_counts_follow_the_profile(monkeypatch, name, expected):
    monkeypatch.setattr(profile, "PROFILE", name)
    assert profile.counted(3, 30) == expected
