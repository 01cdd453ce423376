"""Writes of the data bucket that meet another one, a condition, or their client's end: two at the same time to one key,
those that are to create an object, and those whose client leaves before their body is whole."""

import asyncio
import random
from typing import Final

from harness.clients import path_of
from soak.cell_content import CELL
from soak.client_requests import ClientRequest, RequestSender
from soak.data_bucket import DATA
from soak.write_history import GONE, WriteHistory, effect_of

_SIZES: Final = (CELL, 4096, 65536 * 3 + CELL, 400 * 1024)
_REFUSED: Final = frozenset({412, 409, 501})
_FAILED: Final = frozenset({0, 500, 502, 503, 504})


class ContestedWrites:
    """Of one writer to its own keys."""

    def __init__(self, sender: RequestSender, history: WriteHistory, own: list[str], rng: random.Random) -> None:
        self._sender, self._history, self._own, self._rng = sender, history, own, rng

    async def overlap(self) -> None:
        """Two writes at once, or a write and a deletion. What is read once both are acknowledged stays."""
        key = self._rng.choice(self._own)
        target = path_of(DATA, key)
        body, first = self._history.begin(key, self._rng.choice(_SIZES))
        requests = [ClientRequest("PUT", target, body=body)]
        if self._rng.random() < 0.3:
            second = self._history.begin_deletion(key)
            requests.append(ClientRequest("DELETE", target))
        else:
            body, second = self._history.begin(key, self._rng.choice(_SIZES))
            requests.append(ClientRequest("PUT", target, body=body))
        answers = await asyncio.gather(*map(self._sender.send, requests))
        done = [answer.status in {200, 204} and not answer.aborted for answer in answers]
        if not any(done):
            return
        self._history.acknowledge_first(key, *((first, second) if done[0] else (second, first)))
        if not all(done):
            return
        since = self._history.since(key)
        answer = await self._sender.send(ClientRequest("GET", target))
        if answer.status == 404:
            self._history.verify_absent(key, since, "read after two writes")
            self._history.settle(key, first, second, GONE)
        elif answer.status == 200 and not answer.aborted:
            self._history.verify_body(key, since, answer.body, "read after two writes")
            self._history.settle(key, first, second, effect_of(answer.body))

    async def create(self) -> None:
        """A write that wants no object to be there."""
        key = self._rng.choice(self._own)
        since = self._history.since(key)
        body, write = self._history.begin(key, self._rng.choice(_SIZES))
        answer = await self._sender.send(ClientRequest("PUT", path_of(DATA, key), [("If-None-Match", "*")], body))
        if answer.status in _REFUSED:
            self._history.refuse(write)
            if answer.status == 412:
                assert self._history.possible(key, since) - {GONE}, f"{key} was not to be created: {answer}"
        elif answer.status == 200 and not answer.aborted:
            before = self._history.possible(key, since)
            assert GONE in before, f"{key} was created over one of {before}"
            self._history.acknowledge(key, write)
            self._history.done["created on condition"] += 1
        else:
            assert answer.status in _FAILED or answer.aborted, answer

    async def break_off(self) -> None:
        """A write without the end of its body never has an effect."""
        key = self._rng.choice(self._own)
        body, write = self._history.begin(key, self._rng.choice(_SIZES))
        self._history.refuse(write)
        await self._sender.send_partly(ClientRequest("PUT", path_of(DATA, key), body=body), len(body))
