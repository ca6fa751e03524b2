"""A client of DynamoDB that gives recorded answers, and a store on it; holds no test of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from lochan.stores.dynamodb.address import DynamoAddress
from lochan.stores.dynamodb.client import DynamoClient

ADDRESS = DynamoAddress("local", "table", None, None, 2)


def refused(code: str, status: int = 400, **more: Any) -> ClientError:
    """What botocore raises for an answer that is a refusal."""
    about = {"Code": code, "Message": "recorded"}
    response: Any = {"Error": about, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, "Operation")


def cancelled(*codes: str, item: Any = None) -> ClientError:
    """A cancelled transaction with a reason for each of its requests; the last may have an item."""
    reasons: list[dict[str, Any]] = [{"Code": code} for code in codes]
    if item is not None:
        reasons[-1]["Item"] = item
    return refused("TransactionCanceledException", CancellationReasons=reasons)


class Recorded:
    """Stands in for botocore's client: each request takes the next answer."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def send(**arguments: Any) -> Any:
            self.requests.append((operation, arguments))
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return send


def recorded(*answers: Any) -> tuple[DynamoClient, Recorded, list[float]]:
    """Returns a client with these answers, the last of them for ever, and the sleeps it makes."""
    sleeps: list[float] = []
    client = DynamoClient(ADDRESS, sleeps.append)
    stub = Recorded(*answers)
    client._client = stub
    return client, stub, sleeps
