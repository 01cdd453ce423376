"""The parts of requests in one worker: the gateway, and the parts that answer reads, batches and listings."""

from dataclasses import dataclass

from aiohttp import http_parser

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.read_stream import ReadStream
from forebay.metadata.permissions import Permissions
from forebay.origin.origin_checks import OriginChecks
from forebay.origin.origins import Origins
from forebay.request.admission import GatewayPolicy
from forebay.request.admitted_write import AdmittedWriter
from forebay.request.batch.archive_index import ArchiveIndexes
from forebay.request.batch.batch_reader import BatchReader
from forebay.request.batch.batch_run import BatchServices
from forebay.request.batch.cached_entries import CachedEntries
from forebay.request.batch.member_reads import MemberReads
from forebay.request.cors_frontend import CorsFrontend
from forebay.request.form_upload import FormUpload
from forebay.request.forwarded_reads import ForwardedReads
from forebay.request.gateway import Gateway
from forebay.request.listing_read import ListingReader
from forebay.request.object_read import ObjectReader
from forebay.request.oss_frontend import OssFrontend
from forebay.request.packed_conditions import PackedConditions
from forebay.request.packed_copies import PackedCopies
from forebay.request.packed_subresources import PackedSubresources
from forebay.request.resource_router import ResourceRouter
from forebay.request.resource_uploads import ResourceUploads
from forebay.request.uncached_read import UncachedReader
from forebay.request.verified_bodies import VerifiedBodies
from forebay.server.gateway_policy import gateway_policy
from forebay.server.parts.fetch_parts import FetchParts
from forebay.server.parts.metadata_parts import MetadataParts
from forebay.server.parts.namespace_parts import NamespaceParts
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext
from forebay.server.parts.write_parts import WriteParts

BATCH_SHARE = 4
"""One in so many bytes of the buffers may be held by batches, for entries that wait for their turn."""

STRICT_CHUNKS = http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
"""Whether aiohttp parses chunked framing strictly. Its parser in Python accepts control characters in chunk extensions,
which other parsers may read otherwise: where it is in use, an S3 request has to announce the length of its body."""


@dataclass(frozen=True, slots=True)
class RequestParts:
    """The parts that answer requests."""

    policy: GatewayPolicy
    """The one at the start."""
    gateway: Gateway
    reader: ObjectReader
    read_stream: ReadStream
    """The reads of this worker."""
    resources: ResourceRouter
    """Forebay's own resources. It answers the kinds that jobs add to it."""
    listing_permissions: Permissions


def compose_requests(
    context: WorkerContext,
    origins: Origins,
    storage: StorageParts,
    fetch: FetchParts,
    namespaces: NamespaceParts,
    metadata: MetadataParts,
    writes: WriteParts,
) -> RequestParts:
    """Makes the parts. Raises SettingsError for a policy that is none."""
    policy = gateway_policy(context.settings)
    tasks, spooler = context.tasks, writes.length_spooler if STRICT_CHUNKS else None
    front = OssFrontend(origins, writes.forwarder, writes.length_spooler, writes.uploads)
    read_stream = ReadStream(context.timers, context.peers.number)
    reader = ObjectReader(metadata.resolver, fetch.block_source, read_stream, metadata.packed)
    listing_permissions = Permissions(context.settings.auth.authorization_ttl, context.fences)
    listing_reader = ListingReader(
        namespaces.node_listings, origins, listing_permissions, context.fences, context.clock, namespaces.pages
    )
    resources = ResourceRouter({}, ResourceUploads(writes.uploads, storage.spool), spooler)
    cached_entries = CachedEntries(metadata.resolver, metadata.packed, storage.tiers, read_stream)
    batch_share = SemaphoreShare(storage.budget, BATCH_SHARE)
    members = MemberReads(metadata.packed, ArchiveIndexes())
    services = BatchServices(cached_entries, members, batch_share, tasks, context.observe)
    checks = OriginChecks(origins)
    batches = BatchReader(services, VerifiedBodies(spooler), checks)
    copies = PackedCopies(metadata.packed, fetch.block_source, context.rules, context.clock, checks)
    gateway = Gateway(
        policy,
        reader,
        UncachedReader(ForwardedReads(origins, front), listing_reader, writes.write_back),
        AdmittedWriter(writes.writer, front, copies, PackedConditions(metadata.packed, checks), resources, spooler),
        FormUpload(writes.writer),
        front,
        CorsFrontend(metadata.cors),
        resources,
        batches,
        PackedSubresources(metadata.packed, reader, checks),
    )
    return RequestParts(policy, gateway, reader, read_stream, resources, listing_permissions)
