"""The answer to a listing that the origin does not answer itself."""

from typing import NamedTuple

from forebay.core.request_record import CacheStatus


class ListingAnswer(NamedTuple):
    """A page, and whether the origin had to be asked for it."""

    document: bytes
    source: CacheStatus
