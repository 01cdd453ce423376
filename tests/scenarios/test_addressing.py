"""How clients name the bucket: in the path, under a domain, by a CNAME. Both lanes alike; changed by a reload."""

import json
from pathlib import Path
from typing import Final

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.target import parse_target
from forebay.request.authentication import authenticate
from forebay.server.gateway_policy import gateway_policy
from forebay.settings import load_settings
from forebay.settings.effective_config import effective_config
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.rig import TRAINER, Rig
from security.oss_signers import OSS_SIGNERS

SERVER: Final = (
    'domains = ["forebay.test", "oss-cn-hangzhou.aliyuncs.com"]\ncnames = { "data.example.com" = "datasets" }'
)
WAYS: Final = {
    "an address": ("", "/datasets/a/key"),
    "localhost": ("localhost:9000", "/datasets/a/key"),
    "a domain": ("datasets.forebay.test:9000", "/a/key"),
    "a domain of OSS": ("datasets.oss-cn-hangzhou.aliyuncs.com", "/a/key"),
    "the domain itself": ("oss-cn-hangzhou.aliyuncs.com", "/datasets/a/key"),
    "a CNAME": ("data.example.com", "/a/key"),
    "a CNAME, spelt otherwise": ("DATA.example.COM:80", "/a/key"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lane", ["fast", "full"])
async def test_each_way_leads_to_the_object(tmp_path: Path, way: str, lane: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=SERVER) as rig:
        origin.store.put("datasets", "a/key", b"content")
        origin.store.put("datasets", "datasets/a/key", b"another object")
        host, target = WAYS[way]
        client = RawClient(rig.endpoint, TRAINER, host=host or None)
        if lane == "full":
            rig.worker.listener.reads.fast_lane = None
        seen = []
        for _ in range(3):
            answer = await client.request("GET", target)
            assert (answer.status, answer.body) == (200, b"content")
            seen.append(answer.headers["x-forebay-cache"])
        assert seen[1:] == ["hit-memory", "hit-memory"]


@pytest.mark.parametrize("form", OSS_SIGNERS)
@pytest.mark.parametrize("way", WAYS)
async def test_each_way_is_signed_alike_for_oss(tmp_path: Path, form: tuple[str, str], way: str) -> None:
    """With the bucket in front, wherever it was named; and `/` as `%2F`, as oss2 sends it, is the same."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=SERVER) as rig:
        origin.store.put("datasets", "a/key", b"content")
        signed = OSS_SIGNERS[form](TRAINER, "GET", "/datasets/a/key", (), b"", rig.now(), None)
        host, target = WAYS[way]
        _, _, query = signed.target.partition("?")
        client = rig.client()
        for spelt in (target, target.replace("a/key", "a%2Fkey")):
            pairs = (("Host", host or "127.0.0.1:9000"), *(pair for pair in signed.pairs if pair[0] != "Host"))
            request = type(signed)("GET", f"{spelt}?{query}" if query else spelt, pairs)
            answer = await client.send(request)
            assert (answer.status, answer.body) == (200, b"content")


async def test_a_cname_comes_and_goes_with_a_reload(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=SERVER) as rig:
        origin.store.put("datasets", "a/key", b"content")
        origin.store.put("models", "a/key", b"weights")
        client = RawClient(rig.endpoint, TRAINER, host="data.example.com")
        assert [(await client.request("GET", "/a/key")).body for _ in range(2)] == [b"content"] * 2
        file = rig.directory / "forebay.toml"
        file.write_text(rig.configuration.replace('"data.example.com" = "datasets"', '"data.example.com" = "models"'))
        await rig.worker.reload()
        assert [(await client.request("GET", "/a/key")).body for _ in range(2)] == [b"weights"] * 2
        file.write_text(rig.configuration.replace('"data.example.com" = "datasets"', ""))
        await rig.worker.reload()
        assert (await client.request("GET", "/a/key")).status == 404
        assert (await client.request("GET", "/datasets/a/key")).body == b"content"


def test_open_mode_knows_the_hosts_that_stand_for_buckets() -> None:
    """Whoever comes by a name that nobody configured may be a web page's doing."""
    text = f'[server]\n{SERVER}\n[auth]\nmode = "open"\n[origin]\nendpoint = "https://s3.eu-west-1.amazonaws.com"\n'
    settings = load_settings(text, {}, {}, str).settings
    policy = gateway_policy(settings)
    for host, known in {"data.example.com": True, "x.forebay.test:9000": True, "evil.example.com": False}.items():
        headers = CIMultiDict({"Host": host})
        target = parse_target("/a/key", host, policy.domains, policy.cnames)
        if known:
            assert authenticate(policy.keyring, "GET", target, headers, 0.0)[0].id
        else:
            with pytest.raises(S3Error):
                authenticate(policy.keyring, "GET", target, headers, 0.0)
    shown = json.loads(json.dumps(effective_config(settings)))["server"]
    assert shown["cnames"] == {"data.example.com": "datasets"}
