"""A subscriber in 15 lines: appends a line to a file for each table that changes on a branch."""

from pathlib import Path

from lochan.events.subscribers import EventListener


class TableLog(EventListener):
    def __init__(self, options):
        self.path = Path(options["path"])

    def register(self, registrar):
        registrar.subscribe(self)

    def on_content_stored(self, event):
        with self.path.open("a") as file:
            print(event.reference.name, ".".join(event.key), event.hash, file=file)
