"""The share of one worker in settings that are given for a node.

Memory, buffers, blocks fetched ahead, rings of clients, spooled bytes and requests in flight to the origin are divided
equally among the workers. The SSD tier is shared by all. Limits of connections and requests guard one process, and each
worker has them whole.
"""

from dataclasses import replace

from forebay.settings.model import OriginSettings, Settings


def worker_share(settings: Settings, workers: int) -> Settings:
    """The settings of one of `workers` workers."""
    if workers == 1:
        return settings
    memory = replace(
        settings.memory,
        size=settings.memory.size // workers,
        buffers=max(1, settings.memory.buffers // workers),
        ahead=settings.memory.ahead // workers,
        rings=settings.memory.rings // workers,
    )
    limits = replace(settings.limits, held=settings.limits.held // workers)

    def share(origin: OriginSettings) -> OriginSettings:
        return replace(origin, concurrency=-(-origin.concurrency // workers))

    return replace(
        settings,
        memory=memory,
        origin=settings.origin and share(settings.origin),
        origins=tuple(map(share, settings.origins)),
        limits=limits,
    )
