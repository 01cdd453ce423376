"""Counts of one client: requests by transport, repetitions, and fallbacks."""

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """The counts at one moment. In a child after a fork they begin at zero."""

    requests: dict[str, int]
    """Requests that had a response, by transport: `http`, `socket`."""
    fallbacks: dict[str, int]
    """Requests that a faster way did not carry, by `transport: reason`."""
    retries: int
    """Attempts after the first."""
    resumed: int
    """Bodies that broke off and were continued."""
    ignored: dict[str, int]
    """Hints that meant nothing to the server, by call: `plan`, `warm`, `flush`."""


class ClientStats:
    """Counts for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self._retries = self._resumed = 0

    def count_request(self, transport: str) -> None:
        """A response arrived by this transport."""
        with self._lock:
            self._requests[transport] += 1

    def count_fallback(self, transport: str, reason: str) -> None:
        """A transport did not carry a request that was for it."""
        with self._lock:
            self._fallbacks[f"{transport}: {reason}"] += 1

    def count_ignored(self, call: str) -> None:
        """The server knows no such thing."""
        with self._lock:
            self._ignored[call] += 1

    def count_retry(self, *, is_resumed: bool = False) -> None:
        """A request is repeated, or its body continued."""
        with self._lock:
            self._retries += 1
            self._resumed += is_resumed

    def counts(self) -> ClientCounts:
        """The counts now."""
        with self._lock:
            return ClientCounts(
                dict(self._requests), dict(self._fallbacks), self._retries, self._resumed, dict(self._ignored)
            )
