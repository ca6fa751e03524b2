"""The statements of the store. All that change a row are conditional, and so go through Paxos.

Cassandra orders plain writes by clocks and conditional ones by Paxos. A row that gets both can lose
an acknowledged write, so no row of ours does. A column that is compared with `!=` may be absent:
`IF s != 0x` is always true, and makes an unconditional write one of Paxos.
"""

from __future__ import annotations

from enum import Enum


class TableStatement(Enum):
    """One statement; KEYSPACE.TABLE is replaced by the names of the store."""

    ADD = "INSERT INTO KEYSPACE.TABLE (p, k, v, s, h) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
    RENEW = "UPDATE KEYSPACE.TABLE SET s = ?, h = ? WHERE p = ? AND k = ? IF s = ?"
    SWAP = "UPDATE KEYSPACE.TABLE SET v = ?, s = ?, h = 0 WHERE p = ? AND k = ? IF s = ?"
    REPLACE = "UPDATE KEYSPACE.TABLE SET v = ?, s = ?, h = 0 WHERE p = ? AND k = ? IF EXISTS"
    PUT = "UPDATE KEYSPACE.TABLE SET v = ?, s = ?, h = 0 WHERE p = ? AND k = ? IF s != 0x"
    DELETE = "DELETE FROM KEYSPACE.TABLE WHERE p = ? AND k = ? IF EXISTS"
    DELETE_STAMPED = "DELETE FROM KEYSPACE.TABLE WHERE p = ? AND k = ? IF s = ?"

    ROW = "SELECT k, v, s, h FROM KEYSPACE.TABLE WHERE p = ? AND k = ?"
    ROWS = "SELECT k, v, s, h FROM KEYSPACE.TABLE WHERE p = ? AND k IN ?"
    RANGE = "SELECT k, v, s, h FROM KEYSPACE.TABLE WHERE p = ? AND k >= ? LIMIT ?"
    RANGE_TO = "SELECT k, v, s, h FROM KEYSPACE.TABLE WHERE p = ? AND k >= ? AND k < ? LIMIT ?"
    FIRST = "SELECT k FROM KEYSPACE.TABLE WHERE p = ? LIMIT 1"
    TIMES = "SELECT k, writetime(s) AS at FROM KEYSPACE.TABLE WHERE p = ? AND k > ? LIMIT ?"
    WALK = "SELECT p, k, v, s, h FROM KEYSPACE.TABLE WHERE token(p) > token(?) LIMIT ?"
    WALK_REST = "SELECT p, k, v, s, h FROM KEYSPACE.TABLE WHERE p = ? AND k > ? LIMIT ?"
    WALK_FIRST = "SELECT p, k, v, s, h FROM KEYSPACE.TABLE LIMIT ?"

    # The only plain write; its time is that of the newest row that it deletes.
    DROP = "DELETE FROM KEYSPACE.TABLE USING TIMESTAMP ? WHERE p = ?"
