"""What background work has of the origin: most of it takes no task that a test could wait for."""

from forebay.server.composition import Parts


def is_fetching_ahead(parts: Parts) -> bool:
    """Whether background work has a turn at an origin, or waits for one."""
    turns = [origin.client.reads.background for origin in parts.origins]
    return any(each.in_use or each.waiting for each in turns)
