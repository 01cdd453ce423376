"""Listings that are answered here: a page from a snapshot of the namespace, where the rules and the origin allow it.

    ListObjects, ListObjectsV2 ──> query ──> the origin's permission ──> page (namespace.namespace_owners) ──> reply
                                     │             └──────────────────────┴─ none, but writes are pending, or there are
                                     │                             packs: a page of the origin's with them
                                     │                             (namespace.pending_pages)
                                     └─ none: forwarded, as every other listing

The Admission has proven that the grants cover the prefix. A principal with its own origin credential is allowed a
listing by the origin as well: one request of its own, with the parameters that a policy of the origin could depend on
(prefix, delimiter, number of keys), at most `auth.authorization_ttl` ago. Its page is not read; only the status counts.

The origin's page lacks members of packs. So where there are members, a listing that the origin would answer otherwise
is answered here, and refused where a header asks for facts that only the origin has. Only the bucket's expected owner
is compared by the origin.
"""

import re
from collections.abc import Callable
from typing import Final, Literal

from forebay.core.errors import S3Error
from forebay.core.fences import Fences
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord
from forebay.metadata.permissions import Permissions
from forebay.namespace.listing_answer import ListingAnswer
from forebay.namespace.namespace_owners import NodeListings
from forebay.namespace.pending_pages import PendingPages
from forebay.origin.origin_checks import OWNER, OriginChecks
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.policy.freshness import requests_revalidation
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.forwarded_headers import forwarded_query
from forebay.protocol.listing_query import ListingQuery, origin_only_header, parse_listing, without_own_token
from forebay.protocol.target import Target
from forebay.request.admission import Admission

_VERSIONS: Final[dict[str, Literal[1, 2]]] = {"ListObjects": 1, "ListObjectsV2": 2}
_POSITIONS: Final = frozenset({"continuation-token", "marker", "start-after"})
_OBEYED: Final = frozenset({"x-amz-request-payer", OWNER})
"""Headers, in lower case, with which a listing with members is answered: one changes nothing, the other is checked
before."""
_MAY_BE_ARCHIVED: Final = re.compile(
    rb"<StorageClass>(?:GLACIER|DEEP_ARCHIVE|INTELLIGENT_TIERING|[A-Za-z]*Archive)</StorageClass>"
)
"""The storage classes in the document of a page: its keys hold no `<`."""


class ListingReader:
    """Answers listings. `permissions` are of listings alone: their names are no objects."""

    def __init__(
        self,
        listings: NodeListings,
        origins: Origins,
        permissions: Permissions,
        fences: Fences,
        clock: Callable[[], float],
        pending_pages: PendingPages | None = None,
    ) -> None:
        """`pending_pages` None: nothing is laid over pages of the origin."""
        self._listings = listings
        self._origins = origins
        self._checks = OriginChecks(origins)
        self.permissions = permissions
        self._fences = fences
        self._clock = clock
        self._pending_pages = pending_pages

    async def answer(self, admission: Admission, request: Request, reply: Reply, record: RequestRecord) -> bool:
        """Answers the request, if it is a listing that is answered here. Returns whether it was. Raises OriginError,
        and ConnectionError for a client that has left."""
        version = _VERSIONS.get(admission.operation.name)
        if version is None or request.method != "GET" or request.has_body:
            return False
        query = parse_listing(admission.target, admission.headers, version)
        if query is not None:
            page = await self._page(query, admission)
        else:
            page = await self._page_with_members(admission, version)
        if page is None:
            return False
        record.cache, record.step = page.source, "reply"
        document = page.document
        headers = (
            ("Content-Type", "application/xml"),
            ("x-amz-request-id", record.request_id),
            ("x-forebay-cache", page.source),
        )
        await reply.start(200, headers, len(document))
        await reply.write(document)
        record.count_sent("ssd", len(document))
        await reply.finish()
        return True

    async def _page_with_members(self, admission: Admission, version: Literal[1, 2]) -> ListingAnswer | None:
        """The page of a listing that the origin answers where there are no members."""
        target, pages = admission.target, self._pending_pages
        bucket, prefix = target.bucket, target.param("prefix") or ""
        if pages is None or bucket is None or not await pages.has_members(bucket, prefix):
            return None
        query = parse_listing(target, admission.headers, version, as_s3=True)
        if query is None:  # the origin may answer it all the same, without members
            raise S3Error("InvalidArgument", "A parameter of the listing has a value, or a name, that it can't have.")
        refused = origin_only_header(pair for pair in admission.headers.items() if pair[0].lower() not in _OBEYED)
        if refused is not None:
            raise S3Error("NotImplemented", f"A listing with members of packs can't be answered with {refused}.")
        await self._checks.check_owner(query.bucket, None, admission.headers, admission.identity)
        return await self._page(query, admission, has_members=True)

    async def _page(
        self, query: ListingQuery, admission: Admission, *, has_members: bool | None = None
    ) -> ListingAnswer | None:
        """`has_members`: whether the listing may have members of packs; None: the packs are looked up if that
        matters."""
        identity, page = admission.identity, None
        is_listed = self._listings.local.scope(query.bucket, query.prefix) is not None
        if (
            is_listed
            and not requests_revalidation(admission.headers)
            and (identity is None or await self._is_permitted(identity, admission.target))
        ):
            page = await self._listings.answer(query)
        pages = self._pending_pages
        if page is None and pages is not None:
            if has_members is None:
                has_members = await pages.has_members(query.bucket, query.prefix)
            if identity is None or (has_members and await self._is_permitted(identity, admission.target)):
                page = await pages.answer(query, has_members=has_members)
        if page is not None and query.has_restore_status and _MAY_BE_ARCHIVED.search(page.document):
            if has_members is None:
                has_members = pages is not None and await pages.has_members(query.bucket, query.prefix)
            return page if has_members else None
        return page

    async def _is_permitted(self, identity: OriginIdentity, target: Target) -> bool:
        """Whether the origin allows this listing to `identity`."""
        bucket = target.bucket or ""
        parameters = sorted(pair for pair in target.query if pair[0] not in _POSITIONS)
        name = ObjectName(bucket, f"\0{parameters!r}")  # no key begins with NUL
        now, since = self._clock(), self._fences.now()
        if self.permissions.is_allowed(identity, name, now):
            return True
        request = OriginRequest(
            "GET",
            bucket,
            query=forwarded_query((without_own_token(target) or target).query),
            operation="ListObjectsV2",
            credential=await request_credential(identity),
        )
        async with await self._origins.send(request) as response:
            if response.status != 200:
                self.permissions.revoke(identity, name)
                return False
        self.permissions.allow(identity, name, now, since)
        return True
