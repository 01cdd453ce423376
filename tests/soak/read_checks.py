"""What a client may ask of an object, and what each answer is held against.

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
from soak.client_requests import Wanted
from soak.configuration import ALICE, BOB, BUCKET, everybodys
from soak.oracle import NOTHING, Since, Truth, etag_of

_READ: Final = frozenset({200, 206})
_EVERYBODYS: Final = everybodys()
_FORMS: Final[Sequence[Form]] = (*[("SignedV4", "header")] * len(ALL_SIGNERS), *ALL_SIGNERS)
"""Half of the reads are signed as most are."""


@dataclass(frozen=True, slots=True)
class Read:
    """A read: the request, and what judges its answer (AssertionError: it is wrong)."""

    wanted: Wanted
    judge: Callable[[RawAnswer], None]


class Reads:
    """Makes them up. What may be answered is noted as one is made: it is to be asked for at once."""

    def __init__(self, truth: Truth, chance: random.Random) -> None:
        self._truth, self._chance = truth, chance

    def any(self) -> Read:
        """Of anybody's object, by any principal who reads."""
        key, roll = self._chance.choice(_EVERYBODYS), self._chance.random()
        if roll < 0.08:
            return self.refused(key)
        secret = ALICE if roll < 0.22 else TRAINER
        form = self._chance.choice(_FORMS)
        kind = self._chance.random()
        if kind < 0.12:
            return self._head(key, secret, form)
        if kind < 0.27 and (etags := self._truth.keys[key].etags):
            return self._conditional(key, secret, form, self._chance.choice(etags[-3:]))
        return self._get(key, secret, form)

    def whole(self, key: str) -> Read:
        judge = partial(self._judge_body, key, self._truth.since(key), 0)
        return Read(Wanted("GET", path_of(BUCKET, key)), judge)

    def refused(self, key: str) -> Read:
        """Whatever Forebay has of it, the origin has refused it to this principal."""

        def judge(answer: RawAnswer) -> None:
            assert answer.aborted or answer.status in {403, 503}, answer

        method, form = self._chance.choice(("GET", "HEAD")), self._chance.choice(_FORMS)
        return Read(Wanted(method, path_of(BUCKET, key), secret=BOB, form=form), judge)

    def _head(self, key: str, secret: Secret, form: Form) -> Read:
        since = self._truth.since(key)

        def judge(answer: RawAnswer) -> None:
            if self._is_read(key, since, answer):
                self._truth.judge_head(key, since, answer)

        return Read(Wanted("HEAD", path_of(BUCKET, key), secret=secret, form=form), judge)

    def _get(self, key: str, secret: Secret, form: Form) -> Read:
        """All of it, or a range."""
        first = self._chance.randrange(0, 2048) * CELL
        last = first + self._chance.randrange(1, 4096) * CELL - 1
        headers = [("Range", f"bytes={first}-{last}")] if self._chance.random() < 0.5 else []
        judge = partial(self._judge_body, key, self._truth.since(key), first)
        return Read(Wanted("GET", path_of(BUCKET, key), headers, secret=secret, form=form), judge)

    def _conditional(self, key: str, secret: Secret, form: Form, etag: str) -> Read:
        """On its being, or not being, a version of which somebody once heard."""
        since, named = self._truth.since(key), self._truth.etags[key, etag]
        wants_it = self._chance.random() < 0.5

        def judge(answer: RawAnswer) -> None:
            if answer.aborted or answer.status not in {304, 412}:
                self._judge_body(key, since, 0, answer)
                if not answer.aborted and answer.status == 200:
                    assert (etag_of(answer) == etag) is wants_it, f"{key}: its condition does not hold"
                return
            assert answer.status == (412 if wants_it else 304), answer
            if wants_it:
                self._truth.judge_not(key, since, named)
            else:
                self._truth.judge(key, since, named)

        header = "If-Match" if wants_it else "If-None-Match"
        return Read(Wanted("GET", path_of(BUCKET, key), [(header, etag)], secret=secret, form=form), judge)

    def _judge_body(self, key: str, since: Since, first: int, answer: RawAnswer) -> None:
        if self._is_read(key, since, answer):
            self._truth.judge_body(key, since, answer, first)
            self._truth.done[answer.headers["x-forebay-cache"]] += 1

    def _is_read(self, key: str, since: Since, answer: RawAnswer) -> bool:
        """Whether it tells of an object."""
        if answer.aborted or answer.status == 503:
            return False
        if answer.status == 404:
            self._truth.judge(key, since, NOTHING)
            return False
        assert answer.status in {*_READ, 416}, answer
        return answer.status in _READ
