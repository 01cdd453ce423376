"""Plans as objects: `/<bucket>/.forebay/plans/<name>`: read, sent and removed (forebay.request.resource).

    PUT <name>             a plan, in one of the forms of jobs.plans.plan_body
    PUT keys/<sha-256>     a list of keys for the compact form
    GET, HEAD              the progress, as JSON
    GET, HEAD keys/...     the number of its keys, as JSON
    DELETE                 ends the plan, which is no object any more, or removes the list
    listing                the plans and the lists

A principal sees and changes its own plans alone, as the id of a plan is made of bucket, principal and name.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error, Throttled
from forebay.core.heads import HeaderPairs
from forebay.core.plan_progress import PlanProgress
from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.plans.plan_coordinator import plans_of
from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_key_lists import SentKeyList
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.request.resource import ResourceDocument, ResourceEntry, ResourceOwner

KEY_LISTS: Final = "keys/"
MAX_NAME: Final = 200
"""Characters of a plan's name."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")


class PlanResource:
    """The plans of all owners. `clock`: seconds since the epoch."""

    largest_body: int = 1 << 30
    """Bytes: four million keys of 256 characters."""

    def __init__(
        self,
        plans: NodePlans,
        clock: Callable[[], float],
        count: Callable[[str, int], None] = lambda _result, _by: None,
    ) -> None:
        """`count("dropped", by)` is called with keys that a sender may not read."""
        self._plans = plans
        self._clock = clock
        self._count = count

    async def entries(self, owner: ResourceOwner) -> Sequence[ResourceEntry]:
        """The owner's plans and lists of keys."""
        bucket, principal = owner.bucket, owner.principal.id
        plans = plans_of(await self._plans.plans(), bucket, principal)
        lists = await self._plans.store.key_lists.of(bucket, principal)
        return [
            *(ResourceEntry(each.name, len(_document(each)), each.sent_at) for each in plans),
            *(ResourceEntry(f"{KEY_LISTS}{each.digest}", len(_list_document(each)), each.sent_at) for each in lists),
        ]

    async def read(self, owner: ResourceOwner, name: str) -> ResourceDocument | None:
        """The progress of a plan, or the size of a list of keys."""
        if name.startswith(KEY_LISTS):
            digest = name.removeprefix(KEY_LISTS)
            keys = await self._plans.store.key_lists.find(owner.bucket, owner.principal.id, digest)
            return ResourceDocument(_list_document(keys), keys.sent_at) if keys is not None else None
        found = plans_of(await self._plans.plans(), owner.bucket, owner.principal.id)
        plan = next((each for each in found if each.name == name), None)
        return ResourceDocument(_document(plan), plan.sent_at) if plan is not None else None

    async def write(self, owner: ResourceOwner, name: str, body: AsyncIterator[Piece]) -> HeaderPairs:
        """Runs a plan, or keeps a list of keys."""
        bucket, principal = owner.bucket, owner.principal
        if name.startswith(KEY_LISTS):
            digest = name.removeprefix(KEY_LISTS)
            if _DIGEST.fullmatch(digest) is None:
                raise S3Error("InvalidArgument", "A list of keys is named by the SHA-256 of its bytes, in lower case.")
            keys = await self._plans.store.receive_keys(bucket, principal.id, digest, body)
            return (("x-forebay-plan-keys", str(keys.keys)),)
        if len(name) > MAX_NAME or name.endswith("/"):
            raise S3Error(
                "InvalidArgument", f"The name of a plan has at most {MAX_NAME} characters, the last no slash."
            )
        plan = plan_id(bucket, principal.id, name)
        record = PlanRecord(plan, bucket, principal.id, name, self._clock(), 0, 0, checksums=owner.uses_checksums)
        record = await self._plans.store.receive(record, principal, body)
        self._count("dropped", record.dropped)
        try:
            await self._plans.add(plan)
        except Throttled as refused:
            await self._plans.store.remove(record)
            raise S3Error("SlowDown", f"{refused}.") from None
        return (("x-forebay-plan-entries", str(record.entries)), ("x-forebay-plan-dropped", str(record.dropped)))

    async def remove(self, owner: ResourceOwner, name: str) -> None:
        """Ends a plan, or removes a list of keys."""
        bucket, principal = owner.bucket, owner.principal.id
        if name.startswith(KEY_LISTS):
            await self._plans.store.key_lists.remove(bucket, principal, name.removeprefix(KEY_LISTS))
        else:
            await self._plans.remove(plan_id(bucket, principal, name))


def _document(plan: PlanProgress) -> bytes:
    fields = {name: value for name, value in asdict(plan).items() if name != "is_removed"}
    return json.dumps(fields, indent=1).encode() + b"\n"


def _list_document(keys: SentKeyList) -> bytes:
    return json.dumps({"keys": keys.keys}).encode()
