"""The examples of docs/plans.md are run, as one dialogue with a Forebay of their own."""

import asyncio
import hashlib
import json
import random
import re
import struct
from pathlib import Path
from typing import Final

from forebay.core.plan_progress import PlanProgress
from forebay.jobs.plans.plan_body import MAX_ENTRIES
from forebay.jobs.plans.plan_resource import MAX_NAME, PlanResource
from forebay.jobs.plans.plan_window import SPREAD
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

PAGE: Final = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
EXAMPLES: Final = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def test_the_examples_run(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for number in range(40):
            origin.store.put_synthetic("demo", f"train/{number:04}", 100)
        sampler, s3 = random.Random(1).sample(range(40), 40), rig.boto3()
        names = {"s3": s3, "sampler": sampler, "hashlib": hashlib, "json": json, "struct": struct}

        def run() -> None:
            for example in EXAMPLES:
                exec(compile(example, "docs/plans.md", "exec"), names)

        await asyncio.to_thread(run)
        s3.close()
        plans = {plan.name: plan for plan in rig.parts.jobs.plans.coordinator.plans()}
        assert (plans["epoch-0"].state, plans["epoch-1"].entries) == ("cancelled", 40)
        rig.parts.jobs.plans.coordinator.close()


def test_the_page_names_the_bounds_of_the_code() -> None:
    for number in (MAX_ENTRIES, SPREAD):
        assert f"{number:,}" in PAGE
    assert f"at most {MAX_NAME} characters" in PAGE
    assert PlanResource.largest_body == 1 << 30


def test_the_page_names_every_field_of_the_progress() -> None:
    ours = {"id", "bucket", "name", "principal", "sent_at", "ended_at"}
    assert {field for field in PlanProgress.__slots__ if f"`{field}`" not in PAGE} == ours
