"""The origins of one worker, as its settings name them: for each a client with limits and credential, and its reads."""

from forebay.core.events import Observe
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.origin.bucket_listing import BucketListing
from forebay.origin.dialects import DIALECTS
from forebay.origin.hedging import Hedging
from forebay.origin.object_reads import OriginReads
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origins import Origin, Origins
from forebay.policy.origin_routes import OriginRoutes
from forebay.server.gateway_policy import credentials_of
from forebay.server.resource_limits import usable_origin_requests
from forebay.settings.model import OriginSettings, Settings


def compose_origins(
    settings: Settings, routes: OriginRoutes, observe: Observe, timers: Timers, tasks: TaskRegistry
) -> Origins:
    """Make the origins, inside the loop that will serve. Raises SettingsError for an impossible endpoint."""
    shares = usable_origin_requests(settings)
    rate = settings.limits.min_client_rate
    return Origins(
        [
            _origin(each, concurrency, rate, observe, timers, tasks)
            for each, concurrency in zip(settings.all_origins, shares, strict=True)
        ],
        routes.position_of,
    )


def _origin(
    settings: OriginSettings,
    concurrency: int,
    min_client_rate: int,
    observe: Observe,
    timers: Timers,
    tasks: TaskRegistry,
) -> Origin:
    limits = OriginLimits(
        reads=concurrency,
        writes=max(1, concurrency // 4),
        connect_timeout=settings.connect_timeout,
        answer_timeout=settings.answer_timeout,
        stall_timeout=settings.answer_timeout,
        attempts=settings.attempts,
        min_client_rate=min_client_rate,
    )
    client = OriginClient(
        settings.endpoint,
        settings.region,
        DIALECTS[settings.dialect],
        credentials_of(settings.credentials),
        limits=limits,
        observe=observe,
        ca_file=settings.ca_file,
        timers=timers,
        name=settings.name,
    )
    after = settings.hedge_after
    reads = OriginReads(client, Hedging(client, tasks, after, timers) if after else None)
    return Origin(client, reads, BucketListing(client))
