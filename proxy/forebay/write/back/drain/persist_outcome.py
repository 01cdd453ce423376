"""The outcome of an attempt to carry a write out, and the judgement of an origin's answer.

2xx with the ETag that was acknowledged, or one of KMS    done
403, 404, other 4xx                                       stuck: only a person can help
5xx, 408, 409, 429, no answer, another ETag,
the body broke off or came too slowly                     failed: once more, later
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from forebay.core.errors import ForebayError, OriginUnreachable, S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.conditions import same_etag
from forebay.protocol.xml.s3_documents import embedded_error
from forebay.storage.journal.body_file import BodyDamaged
from forebay.write.back.pending.accepted_write import AcceptedWrite

_MD5_ETAG: Final = re.compile('"?[0-9a-f]{32}(-[0-9]+)?"?', re.IGNORECASE)
_RETRIED: Final = frozenset({408, 409, 429})
BROKEN_BODY: Final = frozenset({"IncompleteBody", "RequestTimeout"})
"""The codes of a 400 for a body that did not come, or not in time."""

Result = Literal["done", "stuck", "failed"]


@dataclass(frozen=True, slots=True)
class PersistOutcome:
    """The outcome of an attempt. `reason`: a sentence, if the write is not done."""

    result: Result
    reason: str = ""
    etag: str = ""
    """The object's at the origin."""
    checksums: HeaderPairs = ()
    """The object's, as headers, where the origin names them in the answer to a completion."""
    is_upload_gone: bool = False
    """Whether the upload has to be prepared anew."""
    is_conflict: bool = False
    """Whether it is stuck as the origin has a version that somebody else wrote."""
    status: int = 0
    """The status of the origin's refusal; 0: there was none."""
    code: str = ""
    """The code of the answer; likewise."""
    is_staged: bool = False
    """Whether the blocks of the object were staged in the tiers as they were sent."""
    is_unanswered: bool = False
    """Whether the origin could not be reached, or gave no answer."""


def acknowledged_etag(write: AcceptedWrite) -> str:
    """Returns the ETag that the client was answered; empty for a deletion."""
    return write.facts.version.etag if write.facts is not None else ""


def judge_failure(error: ForebayError | OSError) -> PersistOutcome:
    """Judges an attempt without an answer."""
    match error:
        case BodyDamaged():
            return PersistOutcome("stuck", f"its bytes in the journal are damaged: {error}")
        case S3Error():
            return PersistOutcome("failed", str(error), status=error.status, code=error.code)
        case OriginUnreachable():
            return PersistOutcome("failed", str(error), is_unanswered=True)
        case OSError():
            return PersistOutcome("failed", f"the journal can't be read: {error.strerror}")
        case _:
            return PersistOutcome("failed", str(error))


def unsettled_reason(error: OSError) -> str:
    """Returns the reason why a write that is done can't be settled."""
    return f"the origin has it, and the journal can't be written: {error.strerror}"


def judge_status(status: int, document: bytes) -> PersistOutcome:
    """Judges an answer other than 2xx."""
    code = embedded_error(document) or str(status)
    is_retried = _is_passing(status) or code in BROKEN_BODY
    return PersistOutcome("failed" if is_retried else "stuck", f"the origin answered {code}", status=status, code=code)


def judge_look(status: int, *, is_known: bool) -> PersistOutcome | None:
    """Judges the refusal of a HEAD. Returns the outcome of an attempt that has to look once more; None: the object may
    not be read. `is_known`: readers have seen the object. Then a 400 is the refusal of an expired token: S3 answers one
    without a code, and otherwise to a HEAD of what is encrypted with a client's key."""
    if _is_passing(status) or (status == 400 and is_known):
        return PersistOutcome("failed", f"the origin answered {status} to a HEAD of the object", status=status)
    return None


def _is_passing(status: int) -> bool:
    return status >= 500 or status in _RETRIED


def judge(write: AcceptedWrite, status: int, etag: str, document: bytes, *, is_opaque: bool) -> PersistOutcome:
    """Judges the answer to the step that everybody sees. `is_opaque`: its ETag is no MD5."""
    if status in {200, 204}:
        expected = acknowledged_etag(write)
        if not is_opaque and is_another(etag, expected):
            return PersistOutcome("failed", f"the origin has {etag} in place of {expected}")
        return PersistOutcome("done", etag=etag)
    if status == 404 and write.facts is None:
        return PersistOutcome("done")
    if status == 404 and write.kind == "complete":
        reason, code = "the origin has not the upload any more", embedded_error(document) or str(status)
        return PersistOutcome("failed", reason, is_upload_gone=True, status=status, code=code)
    return judge_status(status, document)


def is_another(etag: str, expected: str) -> bool:
    """Returns whether the origin's ETag is an MD5 that contradicts the acknowledged one."""
    return bool(expected) and _MD5_ETAG.fullmatch(etag) is not None and not same_etag(etag, expected)
