"""The RPC methods of namespaces: the owner of one answers its listings. The server side of
namespace.namespace_owners.

An owner that starts lists nothing before it has read the journal: its listing would lack pending writes that the
calling worker knows. The others apply the changes that an owner finds (`relisted`) to their heads.
"""

from collections.abc import Callable

from forebay.metadata.listing_changes import ListingChanges, decode_relisted
from forebay.namespace.listings import Listings
from forebay.namespace.namespace_owners import decode_query, encode_entry
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode, decode_name
from forebay.server.rpc.rpc_methods import ResponseWriter, RpcMethods
from forebay.write.packed_deletions import receive_hidden


class NamespaceMethods:
    """Answers from the snapshots of this worker. `knows_pending`: whether it has read the journal, if there is one."""

    def __init__(
        self,
        listings: Listings,
        catalogue: PackCatalogue,
        changes: ListingChanges,
        knows_pending: Callable[[], bool] = lambda: True,
    ) -> None:
        self._listings = listings
        self._catalogue = catalogue
        self._changes = changes
        self._knows_pending = knows_pending
        self.methods = RpcMethods(
            streaming={"list": self._list},
            unary={
                "listed": self._listed,
                "relisted": self._relisted,
                "drop_listings": self._drop_listings,
                "members_hidden": self._members_hidden,
            },
        )

    async def _list(self, request: Document, out: ResponseWriter) -> None:
        query = decode(lambda: decode_query(request["query"]))
        answer = await self._listings.answer(query) if self._knows_pending() else None
        if answer is None:
            await out.send({})
            return
        await out.send({"source": answer.source, "size": len(answer.document)})
        await out.send_bytes(memoryview(answer.document))
        await out.send_end()

    async def _listed(self, request: Document) -> Document:
        name = decode(lambda: decode_name(request["name"]))
        return encode_entry(await self._listings.entry(name) if self._knows_pending() else None)

    async def _relisted(self, request: Document) -> Document:
        bucket, listed_at, keys = decode(
            lambda: (str(request["bucket"]), float(request["listed_at"]), decode_relisted(request["keys"]))
        )
        await self._changes.forget_replaced(bucket, listed_at, keys)
        return {}

    async def _drop_listings(self, request: Document) -> Document:
        bucket, prefix = decode(lambda: (str(request["bucket"]), str(request["prefix"])))
        self._listings.snapshots.drop(bucket, prefix)
        self._catalogue.drop(bucket)
        return {}

    async def _members_hidden(self, request: Document) -> Document:
        await receive_hidden(self._catalogue, request)
        return {}
