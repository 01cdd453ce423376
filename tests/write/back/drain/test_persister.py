"""The persister under a drainer, in front of an origin that fails for an hour of a clock that the pauses move."""

import asyncio
from collections.abc import Sequence
from typing import cast

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.origin.credentials import StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_server import OriginServer
from forebay.origin.origins import Origins
from forebay.peers.owners import Peers
from forebay.policy.drain_order import WriteInterval
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart, PendingObjects
from forebay.write.back.drain.drainer import Drainer
from forebay.write.back.drain.origin_uploads import OriginUploads
from forebay.write.back.drain.origin_versions import OriginVersions
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.drain.persist_outcome import PersistOutcome
from forebay.write.back.drain.persister import Persister
from forebay.write.back.drain.retry_pauses import RetryPauses
from forebay.write.back.drain.upload_preparation import UploadPreparation
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.pending_uploads import PendingUploads
from forebay.write.invalidation import Invalidator
from harness.fake.actions import Respond
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.origin_history import AcknowledgedWrite, RecordingStore, check_history

HOUR = 3600.0


class _NoReaders:
    """In place of an Invalidator and of OriginVersions: nobody reads, and nobody else writes."""

    def begin_write(self) -> int:
        return 0

    def end_write(self, _write: int) -> None:
        pass

    async def invalidate(self, _affected: object, _keep: object = None, *, write: int | None = None) -> None:
        pass

    def stage(self, _block: object, _buffer: object) -> None:
        pass

    def made(self, _name: ObjectName, _etag: str) -> None:
        pass

    def overwrites(self, _name: ObjectName) -> bool:
        return False


class _HourlyRig:
    """Carries out writes; the clock is moved by the pauses between attempts."""

    def __init__(self, client: OriginClient) -> None:
        self.now, self.tasks = 0.0, TaskRegistry()
        self.settled: list[str] = []
        self.acknowledged: list[AcknowledgedWrite] = []
        pending, nobody = PendingObjects(self._read), _NoReaders()
        persister = Persister(
            Origins.single(client),
            pending,
            UploadPreparation(cast("OriginUploads", nobody), PendingUploads(), OwnUploads(Peers())),
            cast("Invalidator", nobody),
            cast("OriginVersions", nobody),
            nobody.stage,
        )
        pauses = RetryPauses(self.tasks, lambda _: "origin", self._sleep)
        self.drainer = Drainer(persister, self._settle, self.tasks, pauses)

    async def _read(self, _ref: object, _within: object) -> memoryview:
        raise BodyDamaged("there are no files")

    async def _settle(self, write: AcceptedWrite, _record: RecordId, _outcome: PersistOutcome) -> None:
        self.settled.append(write.name.key)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def add(self, keys: Sequence[str], began: int) -> None:
        """Writes at the same time, and whatever is added later after them."""
        for number, key in enumerate(keys):
            content = key.encode()
            interval = WriteInterval(began, began + 1 + number)
            facts = ObjectFacts(Version(md5_etag(content)), len(content), "", ())
            write = AcceptedWrite("put", ObjectName("b", key), interval, facts=facts)
            parts = (BodyPart(len(content), content, None),)
            version = write.version(RecordId(key, 0), parts)
            self.drainer.add(write, version)
            self.acknowledged.append(AcknowledgedWrite((key, content), interval.began, interval.written))


async def test_an_hour_of_503_loses_and_reorders_nothing() -> None:
    async with FakeOrigin() as origin:
        store = origin.store = RecordingStore()
        store.create_bucket("b")
        key = StaticCredentials(SecretKey(origin.secret.access, origin.secret.secret))
        async with OriginClient(OriginServer(origin.endpoint, origin.secret.region, DIALECTS["minio"]), key) as client:
            rig = _HourlyRig(client)
            origin.faults.add(Respond(503, "SlowDown"), where=lambda _: rig.now < HOUR)
            rig.add(["shard-1", "shard-2", "shard-3"], 0)
            rig.add(["marker"], 10)
            rig.add(["next-1", "next-2"], 20)
            await rig.tasks.wait_idle()
            assert rig.now >= HOUR
            assert (len(rig.settled), rig.drainer.entries) == (6, {})
            check_history(rig.acknowledged, store.history)
            assert len(store.history) == 6, "each once"
            assert origin.log.count("PUT") < 400, "pauses grow to a minute"
