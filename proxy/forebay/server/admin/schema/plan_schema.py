"""The requests and answers of the admin port about plans (docs/plans.md), as in admin_schema."""

from dataclasses import dataclass
from typing import Final

from forebay.core.plan_progress import PlanProgress
from forebay.server.admin.schema.admin_schema import Bucket, Key
from forebay.server.admin.schema.recording_schema import Content

MAX_PLAN_BODY: Final = 56 << 20
"""Bytes of a plan's JSON: some 40 MiB in base64. A larger one is sent on the data port."""


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """PUT /v1/plans: a plan, as if an access key had sent it on the data port."""

    bucket: Bucket
    name: Key
    """The name of the plan."""
    content: Content
    """Either form of a plan, in base64."""
    key: Key = ""
    """The access key whose reads it is about; empty: the only one there is."""


@dataclass(frozen=True, slots=True)
class PlanSent:
    """The answer. One with a problem is sent as a refusal."""

    plan: PlanProgress | None
    problem: str = ""
    """Why it is refused, as a sentence."""
