"""The services that every connection of one listener works with."""

from dataclasses import dataclass

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.timers import Timers
from forebay.origin.turns.body_turns import BodyTurns
from forebay.server.fastpath.admitted_reads import AdmittedReads
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.parsed_requests import ParsedRequests
from forebay.server.http.sendfile_writer import SendQueue
from forebay.server.http.small_uploads import SmallUploads
from forebay.server.request_service import RequestService


@dataclass(frozen=True, slots=True)
class ConnectionServices:
    """See the module."""

    requests: RequestService
    """The ground of the next three, which answer requests by how they came."""
    reads: AdmittedReads
    uploads: SmallUploads
    parsed: ParsedRequests
    body_turns: BodyTurns
    """Notified of each message of a client."""
    limits: ConnectionLimits
    timers: Timers
    unsent: SemaphoreShare
    """Bytes that may wait for slow clients."""
    receiving: SemaphoreShare
    """Bytes of the buffers that large bodies are received into."""
    send_queue: SendQueue
