"""Reads of the soak, each with the check of its response.

Any answer may be broken off while the origin fails or a worker is ended; what may never come is a wrong one.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from harness.clients import path_of
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER
from security.oss_signers import ALL_SIGNERS
from security.signers import Form
from soak.cell_content import CELL
from soak.client_requests import ClientRequest
from soak.configuration import ALICE, BOB, BUCKET, all_keys
from soak.oracle import NOTHING, Oracle, Snapshot, etag_of

_READ: Final = frozenset({200, 206})
_EVERYBODYS: Final = all_keys()
_FORMS: Final[Sequence[Form]] = (*[("SignedV4", "header")] * len(ALL_SIGNERS), *ALL_SIGNERS)
"""Half of the reads are signed as most are."""


@dataclass(frozen=True, slots=True)
class ReadCheck:
    """A read: the request, and what judges its answer (AssertionError: it is wrong)."""

    request: ClientRequest
    verify: Callable[[RawAnswer], None]


class ReadChecks:
    """Makes them up. What may be answered is noted as one is made: it is to be asked for at once."""

    def __init__(self, oracle: Oracle, rng: random.Random) -> None:
        self._oracle, self._rng = oracle, rng

    def any(self) -> ReadCheck:
        """Of anybody's object, by any principal who reads."""
        key, roll = self._rng.choice(_EVERYBODYS), self._rng.random()
        if roll < 0.08:
            return self.refused(key)
        secret = ALICE if roll < 0.22 else TRAINER
        form = self._rng.choice(_FORMS)
        kind = self._rng.random()
        if kind < 0.12:
            return self._head(key, secret, form)
        if kind < 0.27 and (etags := self._oracle.keys[key].etags):
            return self._conditional(key, secret, form, self._rng.choice(etags[-3:]))
        return self._get(key, secret, form)

    def whole(self, key: str) -> ReadCheck:
        judge = partial(self._verify_body, key, self._oracle.snapshot(key), 0)
        return ReadCheck(ClientRequest("GET", path_of(BUCKET, key)), judge)

    def refused(self, key: str) -> ReadCheck:
        """Whatever Forebay has of it, the origin has refused it to this principal."""

        def judge(answer: RawAnswer) -> None:
            assert answer.aborted or answer.status in {403, 503}, answer

        method, form = self._rng.choice(("GET", "HEAD")), self._rng.choice(_FORMS)
        return ReadCheck(ClientRequest(method, path_of(BUCKET, key), secret=BOB, form=form), judge)

    def _head(self, key: str, secret: Secret, form: Form) -> ReadCheck:
        since = self._oracle.snapshot(key)

        def judge(answer: RawAnswer) -> None:
            if self._has_object(key, since, answer):
                self._oracle.verify_head(key, since, answer)

        return ReadCheck(ClientRequest("HEAD", path_of(BUCKET, key), secret=secret, form=form), judge)

    def _get(self, key: str, secret: Secret, form: Form) -> ReadCheck:
        """All of it, or a range."""
        first = self._rng.randrange(0, 2048) * CELL
        last = first + self._rng.randrange(1, 4096) * CELL - 1
        headers = [("Range", f"bytes={first}-{last}")] if self._rng.random() < 0.5 else []
        judge = partial(self._verify_body, key, self._oracle.snapshot(key), first)
        return ReadCheck(ClientRequest("GET", path_of(BUCKET, key), headers, secret=secret, form=form), judge)

    def _conditional(self, key: str, secret: Secret, form: Form, etag: str) -> ReadCheck:
        """On its being, or not being, a version of which somebody once heard."""
        since, named = self._oracle.snapshot(key), self._oracle.etags[key, etag]
        wants_it = self._rng.random() < 0.5

        def judge(answer: RawAnswer) -> None:
            if answer.aborted or answer.status not in {304, 412}:
                self._verify_body(key, since, 0, answer)
                if not answer.aborted and answer.status == 200:
                    assert (etag_of(answer) == etag) is wants_it, f"{key}: its condition does not hold"
                return
            assert answer.status == (412 if wants_it else 304), answer
            if wants_it:
                self._oracle.verify_not_version(key, since, named)
            else:
                self._oracle.verify_version(key, since, named)

        header = "If-Match" if wants_it else "If-None-Match"
        return ReadCheck(ClientRequest("GET", path_of(BUCKET, key), [(header, etag)], secret=secret, form=form), judge)

    def _verify_body(self, key: str, since: Snapshot, first: int, answer: RawAnswer) -> None:
        if self._has_object(key, since, answer):
            self._oracle.verify_body(key, since, answer, first)
            self._oracle.done[answer.headers["x-forebay-cache"]] += 1

    def _has_object(self, key: str, since: Snapshot, answer: RawAnswer) -> bool:
        """Whether it tells of an object."""
        if answer.aborted or answer.status == 503:
            return False
        if answer.status == 404:
            self._oracle.verify_version(key, since, NOTHING)
            return False
        assert answer.status in {*_READ, 416}, answer
        return answer.status in _READ
