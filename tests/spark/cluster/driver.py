"""The process of a driver: makes a session and a lake, then calls the functions that it is sent.

Reads commands from standard input, a line of JSON each, and answers through a pipe of its own,
because Java writes to standard output whatever it likes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import IO, Any

from lochan.spark.lake import Lake
from lochan.spark.session import session


def call(lake: Lake, function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Calls a function with the lake; returns its value or what it raised."""
    module, _, name = function.partition(":")
    try:
        return {"value": getattr(import_module(module), name)(lake, **arguments)}
    except Exception:
        return {"error": traceback.format_exc()}


def send(replies: IO[str], what: Mapping[str, Any]) -> None:
    """Answers."""
    replies.write(json.dumps(what) + "\n")
    replies.flush()


def main() -> None:
    """Runs until there are no more commands."""
    replies = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8")
    plan = json.loads(sys.stdin.readline())
    spark = session("cluster", plan["master"], plan["settings"])
    with Lake(spark, plan["address"], warehouse=plan["warehouse"], files=plan["files"]) as lake:
        send(replies, {"value": type(spark).__module__})
        for line in sys.stdin:
            command = json.loads(line)
            send(replies, call(lake, command["function"], command["arguments"]))
    spark.stop()
    replies.close()


if __name__ == "__main__":
    main()
