"""The template cache: lookups by head, its bound, and its one policy."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.head_template import HeadTemplate
from forebay.server.fastpath.template_cache import MAX_TEMPLATES, TemplateCache
from harness.fake_origin import FakeOrigin
from harness.lane_responses import fresh_lane
from harness.rig import TRAINER, Rig
from security.oss_signers import ALL_SIGNERS
from security.signers import Pairs

HEADER = ("SignedV4", "header")


def head_of(rig: Rig, pairs: Pairs = (), form: tuple[str, str] = HEADER, method: str = "GET") -> bytes:
    return ALL_SIGNERS[form](TRAINER, method, "/b/key", pairs, b"", rig.now(), None).wire


def template_of(rig: Rig, data: bytes) -> HeadTemplate:
    caller = ClientState("127.0.0.1")
    assert fresh_lane(rig).answer(data, caller) is not None
    assert caller.template is not None
    return caller.template


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "key", b"content")
        await rig.client().request("GET", "/b/key")
        yield rig


async def test_a_template_is_found_by_a_head_that_matches(rig: Rig) -> None:
    templates, policy = TemplateCache[HeadTemplate](), rig.parts.requests.gateway.policy
    heads = [head_of(rig), head_of(rig, [("Range", "bytes=0-1")]), head_of(rig, [("User-Agent", "a")])]
    heads += [head_of(rig, form=("SignedOssV1", "query")), head_of(rig, form=("SignedV4", "query"))]
    kept = []
    for data in heads:
        assert templates.lookup(data, policy) is None
        kept.append(template_of(rig, data))
        templates.add(data, kept[-1])
    for data, template in zip(heads, kept, strict=True):
        found = templates.lookup(data, policy)
        assert found is not None
        assert found[0] is template
        assert found[1] == template.match(data)
    assert templates.lookup(head_of(rig, [("User-Agent", "b")]), policy) is None
    assert templates.lookup(b"", policy) is None


async def test_another_policy_has_other_templates(rig: Rig) -> None:
    templates, policy, data = TemplateCache[HeadTemplate](), rig.parts.requests.gateway.policy, head_of(rig)
    templates.add(data, template_of(rig, data))
    other = replace(policy, domains=("forebay.test",))
    assert templates.lookup(data, other) is None
    assert templates.lookup(data, policy) is not None
    rig.parts.requests.gateway.policy = other
    templates.add(data, template_of(rig, data))
    assert templates.lookup(data, policy) is None
    assert len(templates) == 1


async def test_the_least_recently_used_is_evicted(rig: Rig) -> None:
    templates, policy = TemplateCache[HeadTemplate](), rig.parts.requests.gateway.policy
    heads = [head_of(rig, [("User-Agent", f"client/{number}")]) for number in range(MAX_TEMPLATES + 5)]
    for number, data in enumerate(heads):
        templates.add(data, template_of(rig, data))
        assert len(templates) == min(MAX_TEMPLATES, number + 1)
        assert templates.lookup(heads[0], policy) is not None
    assert [number for number, data in enumerate(heads) if templates.lookup(data, policy) is None] == [1, 2, 3, 4, 5]


async def test_connections_share_templates(rig: Rig) -> None:
    """A new connection's first request matches the template of another's; so do heads that alternate."""
    lane, first = fresh_lane(rig), ClientState("127.0.0.1")
    get, head = head_of(rig, [("Range", "bytes=0-1")]), head_of(rig, method="HEAD")
    templates = []
    for data in (get, head, get, head):
        assert lane.answer(data, first) is not None
        templates.append(first.template)
    assert templates[0] is templates[2] is not templates[1] is templates[3]
    for data, template in ((get, templates[0]), (head, templates[1])):
        another = ClientState("127.0.0.1")
        assert lane.answer(data, another) is not None
        assert another.template is template
