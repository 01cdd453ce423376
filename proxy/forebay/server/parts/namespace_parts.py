"""The parts of namespaces in one worker: pages of the origin with pending writes and packs, and their snapshots."""

from dataclasses import dataclass

from forebay.namespace.entry_lookup import EntryLookup
from forebay.namespace.listings import Listings
from forebay.namespace.namespace_owners import NodeListings
from forebay.namespace.namespaces import Namespaces
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.namespace.packs.packed_pages import PackedPages
from forebay.namespace.packs.tombstone_store import TombstoneStore
from forebay.namespace.pending_entries import PendingEntries
from forebay.namespace.pending_pages import PendingPages
from forebay.namespace.snapshots import Snapshots
from forebay.origin.origins import Origins
from forebay.server.allocator import release_freed_memory
from forebay.server.parts.state_paths import snapshot_directory
from forebay.server.parts.worker_context import WorkerContext
from forebay.storage.journal.pending_objects import PendingObjects


@dataclass(frozen=True, slots=True)
class NamespaceParts:
    """The parts that answer listings."""

    tombstones: TombstoneStore
    catalogue: PackCatalogue
    listings: Listings
    node_listings: NodeListings
    """The listings of the worker that owns the namespace."""
    origin_pages: PackedPages
    """Pages of the origin, with members of packs."""
    pages: PendingPages
    """Pages that no snapshot answers."""


def compose_namespaces(context: WorkerContext, origins: Origins, pending: PendingObjects | None) -> NamespaceParts:
    """Makes the parts. `pending`: objects that the journal has pending, None without one."""
    tasks, observe, clock, rules = context.tasks, context.observe, context.clock, context.rules
    directory = snapshot_directory(context.settings)
    of_origins = OriginPages(origins)
    tombstones = TombstoneStore(origins, clock)
    catalogue = PackCatalogue(of_origins, origins, context.fences, tasks, observe, clock, directory, tombstones)
    pages = PackedPages(of_origins, catalogue, rules)
    pending_entries = PendingEntries(pending)
    fences, in_doubt_writes = context.fences, context.in_doubt_writes
    snapshots = Snapshots(
        pages,
        Namespaces(directory, context.settings.limits.listings),
        fences,
        in_doubt_writes,
        tasks,
        observe,
        clock,
        pending_entries,
        release_freed_memory,
    )
    lookup = EntryLookup(pages, fences, in_doubt_writes, clock, pending_entries)
    listings = Listings(pages, snapshots, lookup, lambda: rules().listings, observe)
    node_listings, pending_pages = NodeListings(listings, context.peers), PendingPages(pages, pending_entries)
    return NamespaceParts(tombstones, catalogue, listings, node_listings, pages, pending_pages)
