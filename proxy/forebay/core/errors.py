"""Errors: one tree for everything that Forebay raises itself.

    ForebayError
    ├── S3Error                   a response to the client, in S3's form: code, status, message
    ├── SettingsError             a refused setting: where it is, its value, what is allowed
    │   └── SettingsErrors            a refused configuration, with all its problems
    ├── PinRefused                a prefix can't be pinned, or unpinned; the message is for people
    ├── OrderRefused              an order names a list, recording or plan that is not there
    ├── Throttled                 a budget or a limit is used up; the client gets 503 SlowDown
    │   └── WritesPending             pending writes of the journal have to be at the origin first
    ├── StorageError              bytes could not be kept or found again
    │   ├── SpoolFull                 the spool has reached its limit; the client gets 503 SlowDown
    │   ├── SpoolFailed               the spool's disk failed; the client gets 503 SlowDown
    │   ├── SsdUnusable               the SSD tier's directory can't be used; Forebay serves without it
    │   │   └── SsdInUse                  another Forebay has it
    │   └── IndexDamaged              the SSD tier's index is damaged; it is rebuilt, else discarded
    ├── OriginError               the origin could not be read
    │   ├── OriginUnreachable         no connection, no response in time, or the breaker is open
    │   ├── OriginBroken              a response to another request, malformed, or cut short
    │   │   ├── BucketMissing             there is no such bucket
    │   │   ├── OriginOverloaded          429 or 5xx to a listing: it may be answered later
    │   │   ├── SizeContradicted          a version with another size than it had before
    │   │   └── WriteRefused              the origin's refusal of a write of Forebay's own
    │   ├── OriginCredentialFault     the origin refuses the credential that signed, or there is none
    │   ├── OriginUnfit               a success that can't be cached; the request is forwarded
    │   ├── PackUnavailable           a pack that may have the object can't be read; the client gets 503
    │   ├── OriginRefused             the origin's own refusal of a fetch, relayed as it is
    │   └── VersionChanged            the pinned version is no longer the current one
    ├── PeerUnavailable           another worker of the node is gone, hangs, or sent no frame
    │   └── PeerNotListening          no process listens on the worker's socket
    ├── MalformedInput            bytes that break a format; caught where the format is read
    │   ├── MalformedHttp
    │   ├── MalformedXml
    │   ├── MalformedOssDocument
    │   ├── MalformedPack
    │   └── MalformedRecording
    └── StartError                Forebay can't start serving; the message is for people
        ├── AddressUnavailable
        ├── JournalUnusable           another Forebay has the directory, or it can't be read or written
        └── WorkerStartError

Foreign errors (aiohttp, the operating system, TLS, LMDB) become these at one border each:
origin/http/transport_errors.py, storage/ssd, settings/sources.py. A tier never raises: a broken cache is a miss
(storage/tier_contract.py). Errors become responses in request/gateway.py alone.
"""

from collections.abc import Sequence

from forebay.core.heads import HeaderPairs
from forebay.core.s3_codes import S3_CODES


class ForebayError(Exception):
    """The root of every error that Forebay raises itself."""


class S3Error(ForebayError):
    """A response to the client. `code` is a key of S3_CODES, which has its status and default message.

    `details` become elements of the error document, as S3's `<Key>` or `<ArgumentName>`. The client sees them, so they
    hold no secret.
    """

    log_reason: str | None = None
    """The reason, for the operator's log alone: a client could learn from it which objects exist."""

    def __init__(self, code: str, message: str | None = None, **details: str) -> None:
        self.code = code
        self.status, default = S3_CODES[code]
        self.message = message if message is not None else default
        self.details = details
        super().__init__(f"{code}: {self.message}")


def access_denied(log_reason: str) -> S3Error:
    """AccessDenied, always with the same message, as the reason would disclose what exists; the log has it.

    To be raised at once: a frame that names an exception which passed through it is a cycle.
    """
    denied = S3Error("AccessDenied")
    denied.log_reason = log_reason
    return denied


class SettingsError(ForebayError):
    """A refused setting. `where` is its path, e.g. `rules[2].freshness`; `value` is None if it is missing and must be
    given; `allowed`: the values it may have; `source`: "line 7" of the file, "from FOREBAY_MEMORY__SIZE", or None;
    `reason` replaces value and allowed values in the message."""

    def __init__(self, where: str, value: object, allowed: str, source: str | None = None, reason: str = "") -> None:
        self.where, self.value, self.allowed, self.source, self.reason = where, value, allowed, source, reason
        super().__init__(self.message(None if value is None else repr(value)))

    def message(self, value: str | None) -> str:
        """The message. `value`: as it is shown, None if it is missing."""
        source = f" ({self.source})" if self.source is not None else ""
        refused = f"must be given: {self.allowed}" if value is None else f"got {value}, allowed: {self.allowed}"
        return f"{self.where}{source}: {self.reason or refused}"


class SettingsErrors(SettingsError):
    """A refused configuration, with all its problems. `where`, `value` and `allowed` are those of the first."""

    def __init__(self, problems: Sequence[SettingsError]) -> None:
        first = problems[0]
        super().__init__(first.where, first.value, first.allowed, first.source, first.reason)
        self.problems = tuple(problems)
        self.args = ("\n".join(str(problem) for problem in problems),)


class PinRefused(ForebayError):
    """A prefix can't be pinned or unpinned: the message is a sentence, with the sizes where they are the reason."""


class OrderRefused(ForebayError):
    """A job's order names a list, recording or plan that is not there. `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Throttled(ForebayError):
    """A budget or a limit is used up: memory, requests to the origin. The client gets 503 SlowDown."""


class WritesPending(Throttled):
    """A request has to come after pending writes of the journal, which are not at the origin in time."""


class StorageError(ForebayError):
    """Bytes could not be kept, or not be found again."""


class SpoolFull(StorageError):
    """The spool has reached its limit. The message is for the client, with 503 SlowDown."""


class SpoolFailed(StorageError):
    """The spool's disk failed. Bytes in memory are kept. The message is for the log, and names the directory."""


class SsdUnusable(StorageError):
    """The SSD tier's directory can't be used: it can't be made, is read-only, or belongs to somebody else. Forebay
    warns, serves without it, and tries again."""


class SsdInUse(SsdUnusable):
    """Another Forebay has the SSD tier's directory, for as long as it runs."""


class IndexDamaged(StorageError):
    """The SSD tier's index can't be opened, or is damaged: it is rebuilt, and discarded if that fails."""


class OriginError(ForebayError):
    """The origin could not be read. `reason` names no secret, no access key and nothing of another request."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    @property
    def message(self) -> str:
        """The sentence for the client, with 503 ServiceUnavailable."""
        return f"The origin's response can't be used: {self.reason}. Please try again."


class OriginUnreachable(OriginError):
    """No connection, no response in time, or the breaker is open."""

    @property
    def message(self) -> str:
        """The sentence for the client."""
        return f"The origin can't be reached: {self.reason}. Please try again."


class OriginCredentialFault(OriginError):
    """The origin refuses the credential that Forebay signed the request with, or there is no credential.

    The fault lies between Forebay and the origin, whatever the client has signed. A write has had no effect.
    """

    def __init__(self, reason: str, message: str) -> None:
        """`reason`: for the log; it may name the access key. `message`: for the client."""
        self._message = message
        super().__init__(reason)

    @property
    def message(self) -> str:
        """The sentence for the client."""
        return self._message


class OriginBroken(OriginError):
    """A response that does not fit the request: short, long, of another range, not HTTP."""


class BucketMissing(OriginBroken):
    """The origin has no such bucket, says its answer to a listing."""


class OriginOverloaded(OriginBroken):
    """The origin has answered a listing with 429 or 5xx: later it may answer otherwise."""


class SizeContradicted(OriginBroken):
    """A response gave a known version another size. Which of the two is wrong is not known: neither is believed."""


class WriteRefused(OriginBroken):
    """The origin has refused an object of Forebay's own. `status`: of its answer; `is_final`: it won't write it yet."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status, self.is_final = status, status < 500


class OriginUnfit(OriginError):
    """A success whose bytes are not certainly those requested: it may be relayed, and never cached."""


class PackUnavailable(OriginError):
    """A pack that may have the object can't be read: its index is damaged, or a shard is not the one that it names.

    So it is not known whether the object exists.
    """

    @property
    def message(self) -> str:
        """The sentence for the client."""
        return f"A pack can't be read: {self.reason}."


class OriginRefused(OriginError):
    """The origin refused a fetch that others wait for. Carries the refusal, which is relayed to them."""

    def __init__(self, status: int, headers: HeaderPairs, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body
        super().__init__(f"the origin answered {status}")


class VersionChanged(OriginError):
    """The pinned version is no longer the current one (412 to If-Match, or another ETag than the pinned one)."""


class PeerUnavailable(ForebayError):
    """Another worker of the node is gone or hangs, or it sent bytes that are no frame."""


class PeerNotListening(PeerUnavailable):
    """No process listens on the worker's socket: it has ended, or has not started yet.

    A missing socket file is no such proof: a cleaner of old files may have removed it under a living worker. So the
    supervisor creates the file beforehand.
    """


class MalformedInput(ForebayError):
    """Bytes that break a format. Caught by the module that reads the format; never a response by itself."""


class MalformedHttp(MalformedInput):
    """A response that is not HTTP/1.1."""


class MalformedXml(MalformedInput):
    """A document that a strict reader refused; the message says why."""


class MalformedOssDocument(MalformedInput):
    """A document that OSS does not send in response to the request."""


class MalformedPack(MalformedInput):
    """A pack's index is damaged, truncated or of another version. The message names the fault."""


class MalformedRecording(MalformedInput):
    """A recording is damaged, truncated or of another version. The message names the fault and its place."""


class StartError(ForebayError):
    """Forebay can't start. The message is for people, and names the remedy."""


class AddressUnavailable(StartError):
    """An address can't be listened on."""


class JournalUnusable(StartError):
    """The journal's directory can't be used: another Forebay has it, it is of another version, or a call failed."""


class WorkerStartError(StartError):
    """A worker process could not be started."""
