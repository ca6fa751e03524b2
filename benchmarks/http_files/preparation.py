"""Prepares branches for the rows; each once in a run. Their names are unique to the run."""

from __future__ import annotations

from itertools import count

from benchmarks.http_files.api import Branch, FilesApi
from benchmarks.http_files.script import Script, call, follow, share

SMALL = b"x" * 100
KILOBYTE = b"k" * 1_024

# So many clients prepare at a time.
_CLIENTS = 64


class Preparation:
    """The prepared branches of one server."""

    def __init__(self, api: FilesApi, run: str, scale: float = 1.0) -> None:
        self.api = api
        self.run = run
        self._scale = scale
        self._numbers = count(1)
        self._made: dict[str, Branch] = {}
        self._root: Branch | None = None

    def name(self, purpose: str) -> str:
        """Returns a new name, of a branch or of a folder."""
        return f"{self.run}-{purpose}-{next(self._numbers)}"

    def scaled(self, files: int) -> int:
        """Returns how many files there are instead of so many; all of them unless it is a test."""
        return max(1, int(files * self._scale))

    async def root(self) -> Branch:
        """Returns the branch from which others are made."""
        if self._root is None:
            answer = await call(self.api.requests, self.api.find_branch("main"))
            self._root = self.api.read_branch("main", answer)
        return self._root

    async def branch(self, purpose: str, source: Branch | None = None) -> Branch:
        """Makes a branch; without a source it is empty."""
        source = source or await self.root()
        name = self.name(purpose)
        request = self.api.create_branch(name, source)
        return self.api.read_branch(name, await call(self.api.requests, request))

    async def stage(self, branch: str, folder: str, files: int) -> None:
        """Stages files of 100 bytes, all with the same bytes: folder/000000 and so on."""
        uploads = [self.api.upload(branch, path(folder, number), SMALL) for number in range(files)]
        await follow(self.api.requests, share(uploads, min(_CLIENTS, files)))

    async def commit(self, branch: str) -> Branch:
        """Commits what is staged."""
        request = self.api.commit(branch, "prepared")
        return self.api.read_branch(branch, await call(self.api.requests, request))

    async def staged(self, files: int) -> Branch:
        """Returns a branch on which so many files are staged, in the folder `data`."""
        if f"staged{files}" not in self._made:
            branch = await self.branch(f"staged{files}")
            await self.stage(branch.name, "data", files)
            self._made[f"staged{files}"] = branch
        return self._made[f"staged{files}"]

    async def committed(self, files: int) -> Branch:
        """Returns a branch with so many committed files in the folder `data`."""
        if not files:
            return await self.root()
        if f"committed{files}" not in self._made:
            branch = await self.branch(f"committed{files}")
            await self.stage(branch.name, "data", files)
            self._made[f"committed{files}"] = await self.commit(branch.name)
        return self._made[f"committed{files}"]

    async def changed(self, files: int, changes: int) -> tuple[Branch, Branch]:
        """Returns two branches of so many files; the second has a few more."""
        base = await self.committed(files)
        name = f"changed{files}"
        if name not in self._made:
            branch = await self.branch(name, base)
            await self.stage(branch.name, "data/more", changes)
            self._made[name] = await self.commit(branch.name)
        return base, self._made[name]

    async def long_history(self, commits: int) -> Branch:
        """Returns a branch of so many commits of files."""
        if "history" not in self._made:
            branch = await self.branch("history")
            await follow(self.api.requests, [self._commits(branch.name, commits)])
            self._made["history"] = branch
        return self._made["history"]

    def _commits(self, branch: str, commits: int) -> Script:
        for number in range(commits):
            yield "prepare", self.api.upload(branch, path("log", number), SMALL)
            yield "prepare", self.api.commit(branch, "prepared")

    async def sources(self, branches: int, changes: int) -> list[Branch]:
        """Returns branches with a commit of some new files each, to be merged."""
        root = await self.root()
        found: list[Branch] = []
        left = [self.name("source") for _ in range(branches)]
        api = self.api

        def make() -> Script:
            while left:
                name = left.pop()
                yield "prepare", api.create_branch(name, root)
                for number in range(changes):
                    yield "prepare", api.upload(name, path(name, number), SMALL)
                answer = yield "prepare", api.commit(name, "prepared")
                found.append(api.read_branch(name, answer))

        await follow(api.requests, [make() for _ in range(min(16, branches))])
        return found

    async def count_commits(self, branch: str) -> tuple[int, int]:
        """Returns how many commits a branch has, and how many of them changed a file."""
        counts = []
        for ask in (self.api.log, self.api.log_of_files):
            total, token, more = 0, "", True
            while more:
                request = ask(branch, 1_000, token)
                found, token = self.api.read_page(await call(self.api.requests, request))
                total, more = total + found, bool(token)
            counts.append(total)
        return counts[0], counts[1]


def path(folder: str, number: int) -> str:
    """Returns the path of a file."""
    return f"{folder}/{number:06}"
