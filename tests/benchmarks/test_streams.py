"""The measurements of streams run on a server of their own, and print what their page shows."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main

SMALL = {
    "--gigabytes": 0.02,
    "--uploads": 5,
    "--committers": 2,
    "--rounds": 1,
    "--seconds": 1,
    "--followers": 20,
    "--messages": 10,
    "--progress-s": 2,
}


@pytest.mark.slow
def test_every_part_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(["streams", *[word for name, size in SMALL.items() for word in (name, str(size))]])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [line["benchmark"] for line in lines]
    assert found == [
        "machine",
        *["stream_memory"] * 4,
        *["stream_uploads"] * 2,
        "stream_uploads_relative",
        *["stream_cut"] * 5,
        "stream_steady",
        "stream_followers",
    ]
    by_name = {line["benchmark"]: line for line in lines}
    assert all(line["same_bytes"] and line["within_bar"] for line in lines[1:5])
    assert (by_name["stream_uploads_relative"]["cut"], lines[6]["whole"]) == (0, 5)
    cuts = [line for line in lines if line["benchmark"] == "stream_cut"]
    # How late a cut comes depends on the machine; that it comes, and not early, does not.
    assert all(line["seconds"] >= 2 and not line["stored"] for line in cuts)
    assert [line["status"] for line in cuts] == [400, 400, 400, 0, 0]
    # Whether a steady reader is served to the end depends on the kernel: it is only measured.
    assert by_name["stream_steady"]["seconds"] > 0
    assert by_name["stream_followers"]["complete"] == 20
