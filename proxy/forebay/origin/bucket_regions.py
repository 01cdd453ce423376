"""The regions of buckets that are not in the origin's own: learnt from its refusals, in a bounded table.

    301 PermanentRedirect, or 400 AuthorizationHeaderMalformed     x-amz-bucket-region, else <Region> of the document
        └─> the bucket's requests are signed for that region from here on

Only the region is taken from such a response, and only if it has the form of one. No host is: `Location` and <Endpoint>
are not read. Where a request goes follows from the configured endpoint and the region (forebay.origin.endpoint).

https://docs.aws.amazon.com/AmazonS3/latest/API/Redirects.html
"""

import re
from collections import OrderedDict
from typing import Final

from forebay.origin.credential_refusal import REGION_REFUSAL, refusal_in
from forebay.protocol.header_map import Headers

REGION_STATUSES: Final = frozenset({301, 400})
"""The statuses of these refusals."""
CAPACITY: Final = 1024
"""Buckets. Clients choose their names."""
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]{1,12}){1,3}-\d{1,2}")


class BucketRegions:
    """The regions of the buckets that were used last."""

    def __init__(self, own: str) -> None:
        """`own`: the region of all buckets of which nothing else is known."""
        self._own = own
        self._known: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, bucket: str | None) -> str:
        """The region that requests about `bucket` are signed for."""
        return self._own if bucket is None else self._known.get(bucket, self._own)

    def learn(self, bucket: str, headers: Headers, document: bytes) -> bool:
        """Reads the region in a refusal with one of REGION_STATUSES. Returns whether it is news: then the request is
        sent once more. `document`: empty for a HEAD."""
        region = headers.get("x-amz-bucket-region")
        if region is None:
            refusal = refusal_in(headers, document)
            region = refusal.expected_region if refusal is not None and refusal.code == REGION_REFUSAL else None
        if region is None or not _REGION.fullmatch(region) or region == self.of(bucket):
            return False
        self._known[bucket] = region
        self._known.move_to_end(bucket)
        if len(self._known) > CAPACITY:
            self._known.popitem(last=False)
        return True
