"""The origins of one worker, as its settings name them: for each a client with limits and credential, and its reads."""

from forebay.origin.bucket_listing import BucketListing
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_server import OriginServer
from forebay.origin.origins import Origin, Origins
from forebay.origin.reads.hedging import Hedging
from forebay.origin.reads.object_reads import OriginReads
from forebay.policy.origin_routes import OriginRoutes
from forebay.server.gateway_policy import credentials_of
from forebay.server.parts.worker_context import WorkerContext
from forebay.server.resource_limits import usable_origin_requests
from forebay.settings.model import OriginSettings


def compose_origins(context: WorkerContext, routes: OriginRoutes) -> Origins:
    """Makes the origins, inside the loop that will serve. Raises SettingsError for an impossible endpoint."""
    shares = usable_origin_requests(context.settings)
    return Origins(
        [
            _origin(context, each, concurrency)
            for each, concurrency in zip(context.settings.all_origins, shares, strict=True)
        ],
        routes.position_of,
    )


def _origin(context: WorkerContext, settings: OriginSettings, concurrency: int) -> Origin:
    limits = OriginLimits(
        reads=concurrency,
        writes=max(1, concurrency // 4),
        connect_timeout=settings.connect_timeout,
        answer_timeout=settings.answer_timeout,
        stall_timeout=settings.answer_timeout,
        attempts=settings.attempts,
        min_client_rate=context.settings.limits.min_client_rate,
    )
    client = OriginClient(
        OriginServer(
            settings.endpoint, settings.region, DIALECTS[settings.dialect], ca_file=settings.ca_file, name=settings.name
        ),
        credentials_of(settings.credentials),
        limits=limits,
        observe=context.observe,
        timers=context.timers,
        body_turns=context.body_turns,
    )
    after = settings.hedge_after
    reads = OriginReads(client, Hedging(client, context.tasks, after, context.timers) if after else None)
    return Origin(client, reads, BucketListing(client))
