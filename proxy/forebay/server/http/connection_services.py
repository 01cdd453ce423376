"""The services that every connection of one listener works with."""

from dataclasses import dataclass

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.timers import Timers
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.request_service import RequestService
from forebay.server.http.sendfile_writer import SendQueue
from forebay.server.http.small_uploads import SmallUploads


@dataclass(frozen=True, slots=True)
class ConnectionServices:
    """See the module."""

    requests: RequestService
    uploads: SmallUploads
    limits: ConnectionLimits
    timers: Timers
    unsent: SemaphoreShare
    """Bytes that may wait for slow clients."""
    receiving: SemaphoreShare
    """Bytes of the buffers that large bodies are received into."""
    send_queue: SendQueue
