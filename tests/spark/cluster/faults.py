"""What goes wrong in executors: tasks that fail or wait, and files whose reply is lost.

Functions for frames are made inside of others, so that they travel to executors as they are; they
have no types, which Spark would try to understand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.io import OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyspark import TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

GATE_S = 200


def failing(column: Column, attempts: int, above: int = -1) -> Column:
    """Returns a column whose task fails in its first attempts, at values above one."""

    def pass_on(value):
        task = TaskContext.get()
        if task is not None and task.attemptNumber() < attempts and value > above:
            raise RuntimeError("a task was made to fail")
        return value

    return F.udf(pass_on, "long")(column)


def gated(column: Column, folder: str, free: int) -> Column:
    """Returns a column whose tasks, but for the first few, wait until the gate is open.

    A task that waits leaves a note in the folder. The wait has an end, as everything has.
    """

    def pass_on(value):
        import threading

        gate = Path(folder)
        task = TaskContext.get()
        if task is None or (gate / "open").exists():
            return value
        if task.partitionId() < free:
            return value
        (gate / f"waits-{task.partitionId()}-{task.attemptNumber()}").touch()
        rest = threading.Event()
        for _ in range(GATE_S * 10):
            if (gate / "open").exists():
                return value
            rest.wait(0.1)
        raise RuntimeError("the gate was not opened in time")

    return F.udf(pass_on, "long")(column)


class LostReplies(PyArrowFileIO):
    """Stores data files whole, and then fails the task that wrote them, once for each task."""

    def new_output(self, location: str) -> Any:
        """Returns a file whose end is hidden from a first attempt."""
        made = super().new_output(location)
        task = TaskContext.get()
        if task is None or task.attemptNumber() > 0:
            return made
        return _Output(made)


class _Output(OutputFile):
    def __init__(self, made: OutputFile) -> None:
        super().__init__(made.location)
        self._made = made

    def __len__(self) -> int:
        return len(self._made)

    def exists(self) -> bool:
        """Returns whether the file exists."""
        return self._made.exists()

    def to_input_file(self) -> Any:
        """Returns the file for reading."""
        return self._made.to_input_file()

    def create(self, overwrite: bool = False) -> Any:
        """Opens the file."""
        return _Stream(self._made.create(overwrite))


class _Stream:
    """A file that is complete when its writer hears that it is not."""

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def close(self) -> None:
        """Stores the file and fails."""
        self._stream.close()
        raise OSError("the reply was lost")
