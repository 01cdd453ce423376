"""The services of connections in one worker: those of its listener, and those of its Unix socket."""

import asyncio
from typing import Final

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.timers import Timers
from forebay.protocol.channel_frames import SLOT_UNIT
from forebay.server.composition import Parts
from forebay.server.fastpath.admitted_reads import AdmittedReads
from forebay.server.fastpath.direct_misses import DirectMisses
from forebay.server.fastpath.fast_lane import FastLane, HitSources, HitTelemetry
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.connection_services import ConnectionServices
from forebay.server.http.parsed_requests import ParsedRequests
from forebay.server.http.sendfile_writer import SendQueue
from forebay.server.http.small_uploads import SmallUploads
from forebay.server.request_service import RequestService
from forebay.server.resource_limits import usable_connections
from forebay.server.shared_memory.batch_requests import BatchRequests
from forebay.server.shared_memory.channel_writer import ChannelServices
from forebay.server.shared_memory.client_memory import ClientMemory
from forebay.server.telemetry.access_log import AccessLog
from forebay.settings.model import Settings

UNSENT_SHARE: Final = 2
"""One in so many bytes of the buffers may wait for slow clients that can't be made to give it back."""

RECEIVING_SHARE: Final = 4
"""One in so many bytes of the buffers may receive large bodies of slow clients."""


def connection_services(
    settings: Settings, parts: Parts, access_log: AccessLog | None, timers: Timers
) -> ConnectionServices:
    """The services that every connection of a worker's listener works with. `access_log`: None for none."""
    limits = settings.limits
    allowed = ConnectionLimits(
        header_size=limits.header_size,
        connections=usable_connections(settings),
        requests=limits.requests,
        header_timeout=limits.header_timeout,
        idle_timeout=limits.idle_timeout,
        stall=limits.body_timeout,
    )
    budget, gateway, metrics = parts.storage.budget, parts.requests.gateway, parts.context.metrics
    unsent, receiving = SemaphoreShare(budget, UNSENT_SHARE), SemaphoreShare(budget, RECEIVING_SHARE)
    sources = HitSources(parts.metadata.resolver, parts.storage.tiers, unsent)
    fast_lane = FastLane(gateway, sources, HitTelemetry(metrics, access_log))
    requests = RequestService(gateway, metrics, access_log, allowed.requests)
    misses = DirectMisses(parts.metadata.openings, gateway.reader, unsent, requests)
    reads = AdmittedReads(requests, fast_lane, misses)
    parsed = ParsedRequests(requests, allowed, timers, settings.server.socket)
    uploads = SmallUploads(requests, allowed, timers, receiving, parts.context.tasks)
    send_queue = SendQueue(asyncio.get_running_loop())
    body_turns = parts.context.body_turns
    return ConnectionServices(
        requests, reads, uploads, parsed, body_turns, allowed, timers, unsent, receiving, send_queue
    )


def socket_services(settings: Settings, parts: Parts, services: ConnectionServices, timers: Timers) -> ChannelServices:
    """The services that every channel of the worker's Unix socket works with, beside those of its connections."""
    memory = ClientMemory(
        parts.storage.rings,
        settings.memory.ring // SLOT_UNIT * SLOT_UNIT,
        lambda: parts.storage.tiers.memory.occupancy().capacity,
        timers,
        parts.context.metrics.counter("forebay_socket_reads_total"),
    )
    return ChannelServices(
        services.requests,
        services.reads,
        BatchRequests(services.requests),
        services.body_turns,
        services.limits,
        timers,
        services.unsent,
        services.send_queue,
        memory,
        lambda: parts.requests.gateway.policy,
    )
