"""What a worker answers the supervisor, which asks it on behalf of the admin port and to look after it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from forebay.core.errors import SettingsError
from forebay.core.events import TierName
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode, decode_head, decode_name, encode_head
from forebay.server.admin.admin_schema import WarmKeys, WarmOrder, WarmPrefix
from forebay.server.admin.cached_objects import LocalCacheView
from forebay.server.rpc.rpc_server import RpcMethod
from forebay.server.worker import Worker
from forebay.settings.loader import Loaded
from forebay.settings.worker_share import worker_share
from forebay.workers.merged_stats import figures_document
from forebay.workers.remote_worker import job_document
from forebay.write.invalidation import decode_affected


class Answers:
    """Of one running worker. `workers`: how many there are."""

    def __init__(self, worker: Worker, workers: int) -> None:
        self._worker = worker
        self._workers = workers
        self._prepared: Loaded | None = None

    def table(self) -> Mapping[str, RpcMethod]:
        return {
            "look": self._look,
            "prepare": self._prepare,
            "commit": self._commit,
            "look again": self._look_again,
            "resize": self._resize,
            "start job": self._start_job,
            "jobs": self._jobs,
            "cancel job": self._cancel_job,
            "invalidate": self._invalidate,
            "in memory": self._in_memory,
            "on ssd": self._on_ssd,
            "held": self._held,
        }

    async def _look(self, _: Document) -> Document:
        control = self._worker.control
        tallies = self._worker.parts.metrics.rules.items()
        return {
            "metrics": await control.metrics(),
            "figures": figures_document(await control.stats()),
            "reachable": self._worker.reachable,
            "delivered": {rule: [tally.fetched - tally.warmed, tally.sent["flight"]] for rule, tally in list(tallies)},
            "jobs": [job_document(job) for job in await control.jobs()],
        }

    async def _prepare(self, question: Document) -> Document:
        """See whether a configuration would do, and have it at hand."""
        try:
            loaded = await asyncio.to_thread(self._worker.source.load_text, question["text"], question["mode"])
        except SettingsError as error:
            self._prepared = None
            return {"refused": [error.where, str(error.given), error.allowed]}
        self._prepared = replace(loaded, settings=worker_share(loaded.settings, self._workers))
        return {}

    async def _commit(self, _: Document) -> Document:
        if self._prepared is not None:
            self._worker.control.apply(self._prepared)
            self._prepared = None
        return {}

    async def _look_again(self, _: Document) -> Document:
        """At what SIGHUP asks to look at beside the configuration."""
        await self._worker.reopen_files()
        return {}

    async def _resize(self, question: Document) -> Document:
        tier: TierName = "ssd" if question["tier"] == "ssd" else "memory"
        await self._worker.control.resize_to(tier, int(question["size"]))
        return {}

    async def _start_job(self, question: Document) -> Document:
        bucket, concurrency, keys = question["bucket"], question["concurrency"], question.get("keys")
        order: WarmOrder = WarmPrefix(bucket, str(question.get("prefix") or ""), concurrency)
        if keys is not None:
            order = WarmKeys(bucket, tuple(keys), concurrency)
        return {"job": job_document(await self._worker.control.start_job(order))}

    async def _jobs(self, _: Document) -> Document:
        return {"jobs": [job_document(job) for job in await self._worker.control.jobs()]}

    async def _cancel_job(self, question: Document) -> Document:
        job = await self._worker.control.cancel_job(str(question["job"]))
        return {"job": job_document(job) if job is not None else None}

    async def _invalidate(self, question: Document) -> Document:
        await self._worker.parts.invalidator.invalidate(decode(lambda: decode_affected(question)))
        return {}

    def _shelf(self) -> LocalCacheView:
        return LocalCacheView(self._worker.parts.tiers)

    async def _in_memory(self, question: Document) -> Document:
        found = await self._shelf().memory_heads(
            question["bucket"], question["prefix"], question["after"], question["limit"]
        )
        return {"found": [[key, encode_head(head)] for key, head in found.items()]}

    async def _on_ssd(self, question: Document) -> Document:
        cursor = bytes.fromhex(question["cursor"])
        found = await self._shelf().ssd_entries(question["bucket"], question["prefix"], cursor, question["limit"])
        return {"found": [[each.key, encode_head(each.head), each.cursor.hex()] for each in found]}

    async def _held(self, question: Document) -> Document:
        named = [(decode_name(name), decode_head(head)) for name, head in question["named"]]
        held = await self._shelf().resident_blocks(named)
        return {"held": [[f"{each.memory:x}", f"{each.ssd:x}", each.ssd_bytes] for each in held]}
