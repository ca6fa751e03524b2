"""What is printed is text, never orders to a terminal, and is not padded for files."""

from __future__ import annotations

import pytest

from lochan.cli.output import Printer, first_line, moment, plain, short


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 日本", "plain ü 日本"),
        ("two\nlines", "two\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("bell\x07", "bell\\x07"),
        ("back\rover", "back\\rover"),
        ("\u202eright to left", "\\u202eright to left"),
    ],
)
def test_control_characters_are_spelled_out(text, shown):
    assert plain(text) == shown


def test_a_table_in_a_file_is_neither_cut_nor_padded(capsys):
    rows = [("a", "x" * 300), ("longer", "y")]
    count = Printer(as_json=False).table(rows, ("one", "two"), lambda row: row, str, "nothing")
    assert count == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["one     two", "a       " + "x" * 300, "longer  y"]


def test_markup_in_texts_of_others_is_text(capsys):
    Printer(as_json=False).table([("[bold]x[/bold]",)], ("one",), lambda row: row, str, "")
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_an_empty_table_says_so_to_people_and_nothing_to_programs(capsys):
    Printer(as_json=False).table([], ("one",), lambda row: row, str, "nothing here")
    assert capsys.readouterr().out == "nothing here\n"
    Printer(as_json=True).table([], ("one",), lambda row: row, str, "nothing here")
    assert capsys.readouterr().out == ""


def test_hashes_times_and_messages_are_shortened_for_eyes():
    assert short("ab" * 32) == "ab" * 6
    assert short(None) == ""
    assert moment(0) == "1970-01-01 00:00:00"
    assert moment(None) == ""
    assert first_line("a\nb") == "a"
