"""Forebay's own resources are no way in: plans, recordings and data sets tell nobody what is another's.

Each kind of resource, in each way to ask for it, by everybody but its owner, in both dialects: of one that is there and
of one that is not, under names of one length, and the answers are the same but for the names, the ids and the time. Of
a plan, what its sender may not read is counted, and neither named nor looked for at the origin.
"""

import json
import re
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from harness.clients import RawRequest, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import RawAnswer
from harness.recording_content import recording_of
from harness.reference_sigv4 import Secret
from harness.rig import READER, Rig
from security.oss_signers import OSS_SIGNERS
from security.signers import SIGNERS

CLOSED: Final = [f"closed/{number:02}" for number in range(20)]
THERE, MISSING = "there-1", "wanted-"
KEY_LIST: Final = "".join(f"{key}\n" for key in CLOSED).encode()
NAMES: Final = dict.fromkeys(("plans", "recordings", "datasets"), (THERE, MISSING)) | {
    "plans/keys": (sha256(KEY_LIST).hexdigest(), sha256(b"wanted").hexdigest())
}
"""By kind: a resource of the trainer's, and none."""
NOBODY, OWNER = Secret("none", "none-secret"), Secret("owner", "owner-secret")
CONFIGURATION: Final = f"""
[[rules]]
path = "bucket/closed/**"
name = "{THERE}"
freshness = "immutable"

[[auth.keys]]
id = "none"
secret = "none-secret"
grants = []

[[auth.keys]]
id = "owner"
secret = "owner-secret"
origin_access_key = "owner"
origin_secret_key = "owner"
grants = [{{ path = "**", allow = ["read", "list"] }}]

[auth.anonymous]
grants = [{{ path = "bucket/open/**", allow = ["read", "list"] }}]
"""
Ask = Callable[[str, str, bytes], RawRequest]


def _unsigned(method: str, target: str, body: bytes) -> RawRequest:
    return RawRequest(method, target, (("Content-Length", str(len(body))),) if body else (), body)


def _s3(secret: Secret) -> Ask:
    signer = SIGNERS["SignedV4", "header"]
    return lambda method, target, body: signer(secret, method, target, (), body, time.time(), None)


def _oss(secret: Secret) -> Ask:
    signer = OSS_SIGNERS["SignedOssV4", "header"]
    return lambda method, target, body: signer(secret, method, target, (), body, time.time(), None)


CALLERS: Final[dict[str, Ask]] = {
    "unsigned": _unsigned,
    "no grants": _s3(NOBODY),
    "few grants": _s3(READER),
    "few grants, OSS": _oss(READER),
    "own credential": _s3(OWNER),
    "wrong secret": _s3(Secret("trainer", "wrong")),
}
WAYS: Final = ("GET", "HEAD", "DELETE")


@asynccontextmanager
async def with_resources(tmp_path: Path) -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    """The trainer's plan, recording and data set, all of closed objects."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=CONFIGURATION) as rig:
        client = rig.client()
        for key in CLOSED:
            origin.store.put("bucket", key, key.encode())
        bodies = {"plans": "\n".join(CLOSED).encode(), "recordings": recording_of(CLOSED), "plans/keys": KEY_LIST}
        for kind, body in bodies.items():
            answer = await client.request("PUT", path_of("bucket", f".forebay/{kind}/{NAMES[kind][0]}"), (), body)
            assert answer.status == 200, answer.body
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == len(CLOSED))
        assert (await client.request("GET", path_of("bucket", CLOSED[0]))).status == 200
        await run_loop_until(lambda: bool(rig.parts.jobs.data_sets.states()))
        for kind, (there, _) in NAMES.items():
            assert (await client.request("GET", path_of("bucket", f".forebay/{kind}/{there}"))).status == 200, kind
        yield rig, origin


def _plain(answer: RawAnswer, name: str) -> tuple[int, dict[str, str], bytes]:
    """An answer without what differs between any two."""
    ids = {"x-amz-request-id", "x-oss-request-id", "date", "content-length"}
    headers = {key.lower(): value for key, value in answer.pairs if key.lower() not in ids}
    body = answer.body + b64decode(headers.pop("x-oss-err", ""))  # what a HEAD has in place of a document
    body = re.sub(rb"<(RequestId|HostId|StringToSign|StringToSignBytes)>[^<]*<", b"<", body)
    return answer.status, headers, body.replace(name.encode(), b"name")


@pytest.mark.parametrize("caller", CALLERS)
async def test_nobody_learns_of_anothers_resources(tmp_path: Path, caller: str) -> None:
    async with with_resources(tmp_path) as (rig, origin):
        client, ask = rig.client(), CALLERS[caller]
        before = len(origin.log.requests)
        for kind, names in NAMES.items():
            for way in WAYS:
                told = []
                for name in names:
                    answer = await client.send(ask(way, f"/bucket/.forebay/{kind}/{name}", b""))
                    assert b"closed/" not in answer.body
                    told.append(_plain(answer, name))
                assert told[0] == told[1], (kind, way)
            listed = await client.send(ask("GET", f"/bucket?prefix=.forebay%2F{kind}%2F", b""))
            assert listed.body.count(b"<Contents>") == 0, kind
        assert len(origin.log.requests) == before, "the origin was asked"
        for kind, (there, _) in NAMES.items():  # all of it was there all the time
            assert (await client.request("GET", path_of("bucket", f".forebay/{kind}/{there}"))).status == 200


async def test_positions_made_by_hand_show_nobody_elses_names(tmp_path: Path) -> None:
    """A page begins behind any name: of another's resource, of none, or of nothing below the prefix."""
    async with with_resources(tmp_path) as (rig, _):
        client = rig.client(READER)
        for kind in ("plans", "recordings", "plans/keys"):
            for position in ("", "closed/", *(name[:-1] for name in NAMES[kind])):
                behind = f".forebay/{kind}/{position}"
                token = urlsafe_b64encode(behind.encode()).decode().replace("=", "%3D")
                name = behind.replace("/", "%2F")
                for page in (
                    f"continuation-token={token}&list-type=2",
                    f"list-type=2&start-after={name}",
                    f"delimiter=%2F&marker={name}",
                    f"delimiter=t&list-type=2&start-after={name}",
                ):
                    query = "&".join(sorted([*page.split("&"), "prefix=.forebay%2F"]))
                    answer = await client.request("GET", f"/bucket?{query}")
                    assert answer.status == 200, answer.body
                    assert b"<Contents>" not in answer.body
                    assert b"<CommonPrefixes>" not in answer.body


@pytest.mark.parametrize("kind", ["plans", "recordings", "datasets"])
async def test_no_name_leads_to_another_kind_or_key(tmp_path: Path, kind: str) -> None:
    """Dots, doubled slashes, other cases: each is a name of its own, and of nothing."""
    async with with_resources(tmp_path) as (rig, _):
        for name in (
            f"../plans/{THERE}",
            f"./{THERE}",
            f"/{THERE}",
            f"keys/../{THERE}",
            THERE.upper(),
            f"{THERE}/",
            f"{THERE} ",
        ):
            path = path_of("bucket", f".forebay/{kind}/{name}")
            for client in (rig.client(READER), rig.client()):
                assert [(await client.request(way, path)).status for way in ("GET", "HEAD")] == [404, 404], name
                await client.request("DELETE", path)
        for each, (there, _) in NAMES.items():
            assert (await rig.client().request("GET", path_of("bucket", f".forebay/{each}/{there}"))).status == 200


async def test_a_plan_over_anothers_list_tells_nothing_of_it(tmp_path: Path) -> None:
    async with with_resources(tmp_path) as (rig, _):
        told = []
        for digest in NAMES["plans/keys"]:
            body = b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + (1).to_bytes(4, "little") + bytes(4)
            answer = await rig.client(READER).request("PUT", path_of("bucket", ".forebay/plans/mine"), (), body)
            assert answer.status == 400, answer.body
            told.append(_plain(answer, digest))
        assert told[0] == told[1]


async def test_a_plan_tells_nothing_of_keys_that_its_sender_may_not_read(tmp_path: Path) -> None:
    async with with_resources(tmp_path) as (rig, origin):
        client = rig.client(READER)
        for key in ("open/a", "open/b"):
            origin.store.put("bucket", key, b"open")
        before = len(origin.log.requests)
        answers = []
        for closed in (CLOSED, [key.replace("closed", "wanted") for key in CLOSED]):
            body = "\n".join(["open/a", *closed, "open/b"]).encode()
            sent = await client.request("PUT", path_of("bucket", ".forebay/plans/mine"), (), body)
            counts = {name: sent.headers[f"x-forebay-plan-{name}"] for name in ("entries", "dropped")}
            assert counts == {"entries": "2", "dropped": str(len(CLOSED))}
            await run_loop_until(lambda: _lead(rig) == 2 * len(b"open"))
            shown = await client.request("GET", path_of("bucket", ".forebay/plans/mine"))
            assert not re.search(rb"closed|wanted", shown.body)
            answers.append({**json.loads(shown.body), "sent_at": 0, "lead_seconds": 0})
            await client.request("DELETE", path_of("bucket", ".forebay/plans/mine"))
        assert answers[0] == answers[1]
        asked = {each.key for each in origin.log.requests[before:]}
        assert asked <= {"open/a", "open/b"}


def _lead(rig: Rig) -> int:
    return sum(plan.lead_bytes for plan in rig.parts.jobs.plans.coordinator.plans() if plan.principal == READER.access)


@pytest.mark.parametrize("line", ["{}\t9-5", "{}\tall", "{}\t-1-5", "{}" + "x" * 1100, "{}\0"])
async def test_an_error_names_the_line_and_no_key(tmp_path: Path, line: str) -> None:
    async with with_resources(tmp_path) as (rig, _):
        told = []
        for key in (CLOSED[0], CLOSED[0].replace("closed", "wanted")):
            body = f"open/a\n{line.format(key)}\n".encode()
            answer = await rig.client(READER).request("PUT", path_of("bucket", ".forebay/plans/mine"), (), body)
            assert (answer.status, b"<Line>2</Line>" in answer.body) == (400, True), answer.body
            assert not re.search(rb"closed|wanted", answer.body)
            told.append(_plain(answer, key))
        assert told[0] == told[1]
