"""The answer to a listing that the origin does not answer itself."""

from typing import NamedTuple

from forebay.core.request_record import CacheStatus


class ListingAnswer(NamedTuple):
    """A page, and whether it took a request to the origin."""

    document: bytes
    source: CacheStatus
