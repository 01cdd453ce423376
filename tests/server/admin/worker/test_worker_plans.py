"""A plan that an operator sends, with a resource that refuses it."""

from typing import cast

import pytest

from forebay.core.errors import S3Error, Throttled
from forebay.jobs.plans.node_plans import NodePlans
from forebay.policy.grants import Principal
from forebay.request.authentication import Keyring
from forebay.request.resource import ResourceWriter
from forebay.server.admin.schema.plan_schema import PlanOrder
from forebay.server.admin.worker.worker_plans import WorkerPlans


class RefusingResource:
    """Refuses each write with an error."""

    def __init__(self, error: S3Error) -> None:
        self._error = error

    async def write(self, *_: object) -> None:
        raise self._error


def plans(error: S3Error) -> WorkerPlans:
    """The verbs, over a resource that refuses plans with `error`."""
    keyring = Keyring({}, {"trainer": Principal("trainer", ())})
    return WorkerPlans(cast(NodePlans, None), cast(ResourceWriter, RefusingResource(error)), lambda: keyring)


async def test_a_plan_that_is_wrong_is_refused_with_the_reason() -> None:
    sent = await plans(S3Error("InvalidArgument", "Line 1: no range.")).send_plan(PlanOrder("b", "n", "", "trainer"))
    assert (sent.plan, sent.problem) == (None, "Line 1: no range.")


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
async def test_a_plan_without_room_may_be_sent_again(code: str) -> None:
    with pytest.raises(Throttled, match=r"No room\."):
        await plans(S3Error(code, "No room.")).send_plan(PlanOrder("b", "n", "", "trainer"))
