"""The parts of metadata in one worker: heads and lookups, staged and packed objects, and their invalidation."""

from dataclasses import dataclass

from forebay.metadata.direct_openings import DirectOpenings
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.listed_heads import ListedHeads
from forebay.metadata.listing_changes import ListingChanges
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.own_writes import OwnWrites
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.permissions import Permissions
from forebay.metadata.resolver import Resolver
from forebay.metadata.shared_lookup import SharedLookups
from forebay.metadata.staged_objects import StagedObjects
from forebay.metadata.version_fetch import VersionFetch
from forebay.origin.origins import Origins
from forebay.request.bucket_cors import BucketCors
from forebay.server.parts.fetch_parts import FetchParts
from forebay.server.parts.namespace_parts import NamespaceParts
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext
from forebay.write.body_digest import WrittenDigests
from forebay.write.invalidation import Invalidator


@dataclass(frozen=True, slots=True)
class MetadataParts:
    """The parts that know objects' metadata, and that invalidate it."""

    heads: ObjectHeads
    digests: WrittenDigests
    staged: StagedObjects
    cors: BucketCors
    resolver: Resolver
    openings: DirectOpenings
    packed: PackedObjects
    invalidator: Invalidator
    listing_changes: ListingChanges


def compose_metadata(
    context: WorkerContext, origins: Origins, storage: StorageParts, fetch: FetchParts, namespaces: NamespaceParts
) -> MetadataParts:
    """Makes the parts, and compares each new snapshot of a namespace with the heads."""
    fences, in_doubt_writes, peers, tasks = context.fences, context.in_doubt_writes, context.peers, context.tasks
    tiers, snapshots, catalogue = storage.tiers, namespaces.listings.snapshots, namespaces.catalogue
    digests = WrittenDigests(peers)
    heads = ObjectHeads(tiers, fences, in_doubt_writes, context.clock, digests.add_crc)
    lookups = SharedLookups(tasks)
    permissions = Permissions(context.settings.auth.authorization_ttl, fences)
    checksums = ObjectChecksums(origins, heads, lookups)
    staged = StagedObjects(origins, tiers, heads, tasks, peers)
    cors = BucketCors(origins, tasks)
    invalidator = Invalidator(
        fences,
        in_doubt_writes,
        (lookups, staged, cors, snapshots, catalogue),
        tiers,
        context.clock,
        peers,
        shared=context.settings.ssd is not None,
    )
    replacement = HeadReplacement(heads, lookups, invalidator.forget_replaced, tasks, context.observe)
    listed_heads = ListedHeads(namespaces.node_listings, heads, replacement, context.observe)
    changes = ListingChanges(heads, replacement, peers, context.observe)
    snapshots.on_snapshot = lambda old, new: tasks.spawn(changes.compare(old, new), f"compare {new.bucket}")
    versions = VersionFetch(origins, fetch.fetcher, heads, permissions, replacement, peers)
    own_writes = OwnWrites(staged, storage.pending)
    openings = DirectOpenings(origins, fetch.fetcher, heads, lookups, replacement, checksums, own_writes, peers)
    resolver = Resolver(
        versions, heads, lookups, permissions, checksums, own_writes, replacement, openings, listed_heads
    )
    packed = PackedObjects(resolver, catalogue, context.rules)
    return MetadataParts(heads, digests, staged, cors, resolver, openings, packed, invalidator, changes)
