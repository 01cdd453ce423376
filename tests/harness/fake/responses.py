"""An answer before it is sent: what the operations make, what faults spoil, what the wire writes."""

import time
from dataclasses import dataclass, replace
from email.utils import formatdate
from functools import lru_cache

from harness.fake.content import Content, Stored
from harness.fake.errors import Refusal, error_document

Pairs = tuple[tuple[str, str], ...]
_NOTHING = Stored()


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers` hold neither Content-Length (the wire's) nor Date and request ids (everybody's)."""

    status: int
    headers: Pairs = ()
    content: Content = _NOTHING
    start: int = 0
    stop: int = 0
    """The body is [start, stop) of the content."""
    bodiless: bool = False
    """HEAD and 304: Content-Length as if, no body."""

    @property
    def length(self) -> int:
        return self.stop - self.start

    def with_headers(self, *dropped: str, **changed: str) -> "Answer":
        """The same answer with headers replaced (underscores for dashes) or dropped (lower case)."""
        new = {name.replace("_", "-").lower(): value for name, value in changed.items()}
        kept = tuple(each for each in self.headers if each[0].lower() not in new and each[0].lower() not in dropped)
        return replace(self, headers=(*kept, *new.items()))

    def with_body(self, body: bytes) -> "Answer":
        return replace(self, content=Stored(body), start=0, stop=len(body))


def document(xml: bytes, status: int = 200, headers: Pairs = ()) -> Answer:
    return Answer(status, (("Content-Type", "application/xml"), *headers), Stored(xml), 0, len(xml))


def error_response(refusal: Refusal, resource: str, bodiless: bool) -> Answer:
    xml = error_document(refusal.code, refusal.message, resource, **refusal.elements)
    return replace(document(xml, refusal.status, refusal.headers), bodiless=bodiless)


@lru_cache(maxsize=4096)
def http_date(seconds: int) -> str:
    """RFC 9110's date; S3 keeps whole seconds."""
    return formatdate(seconds, usegmt=True)


def iso_date(seconds: float) -> str:
    """The date of S3's documents, milliseconds always zero."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))
