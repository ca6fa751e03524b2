"""Records what really happened: a trigger notes every effect on a row, of any connection."""

from __future__ import annotations

from collections import Counter

import psycopg

from lochan.base.errors import Unknown
from lochan.kv.store import Adds, Lost, Outcome, SetIf, Store, Won

_TRIGGER = """
CREATE TABLE "{schema}".effects (number bigserial, key bytea, value bytea);
CREATE FUNCTION "{schema}".witness() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO "{schema}".effects (key, value) VALUES (NEW.key, NEW.value); RETURN NULL; END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON "{schema}".rows
FOR EACH ROW EXECUTE FUNCTION "{schema}".witness();
"""

_OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
AND application_name = %s AND pid <> pg_backend_pid() AND state <> 'idle'
"""

_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = %s
"""


class Witness:
    """Counts effects, and waits until statements whose client has gone are over."""

    def __init__(self, database: psycopg.Connection, schema: str, client: str = "lochan") -> None:
        self._database = database
        self._schema = schema
        self._client = client
        database.execute(_TRIGGER.format(schema=schema).encode())

    def effects(self, key: bytes) -> Counter[bytes]:
        """Returns how often each value was written to a row."""
        query = f'SELECT value FROM "{self._schema}".effects WHERE key = %s'.encode()
        return Counter(bytes(row[0]) for row in self._database.execute(query, (key,)))

    def wait_until_quiet(self) -> None:
        """Returns when no statement of a store is under way."""
        while self._number(_OTHERS):
            pass

    def wait_until_one_waits(self, count: int = 1) -> None:
        """Returns when so many statements of stores wait for a lock."""
        while self._number(_WAITING) != count:
            pass

    def _number(self, query: str) -> int:
        row = self._database.execute(query.encode(), (self._client,)).fetchone()
        assert row is not None
        return int(row[0])


def resolve(store: Store, adds: Adds, condition: SetIf) -> Outcome:
    """Settles an unknown outcome: sends the same conditional write again, then reads."""
    outcome = store.apply(adds, condition)
    if isinstance(outcome, Won):
        return outcome
    entry = store.get(condition.partition, condition.key)
    if entry is not None and entry.value == condition.value:
        return Won(entry.stamp)
    return Lost(entry)


def attempt(store: Store, adds: Adds, condition: SetIf) -> Outcome | Unknown:
    """Applies, and returns Unknown instead of raising it."""
    try:
        return store.apply(adds, condition)
    except Unknown as error:
        return error
