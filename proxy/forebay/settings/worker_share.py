"""What of the settings is one worker's, where several share a node.

Sizes of memory, what may be held, and the places at the origin are the node's: each worker has an equal share. The SSD
tier is one, which all share. Limits of connections and requests guard a process, and hold for each.
"""

from dataclasses import replace

from forebay.settings.model import Settings


def share_of(settings: Settings, workers: int) -> Settings:
    """The settings of one of `workers` workers."""
    if workers == 1:
        return settings
    memory = replace(
        settings.memory, size=settings.memory.size // workers, buffers=max(1, settings.memory.buffers // workers)
    )
    origin = replace(settings.origin, concurrency=-(-settings.origin.concurrency // workers))
    limits = replace(settings.limits, held=settings.limits.held // workers)
    return replace(settings, memory=memory, origin=origin, limits=limits)
