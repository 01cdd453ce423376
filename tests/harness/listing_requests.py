"""Requests for listings of a bucket: rules that snapshots answer them by, keys in an answer, requests at the origin."""

from harness.clients import RawClient
from harness.conformance import texts
from harness.fake_origin import FakeOrigin

LISTING = "/bucket?list-type=2"
TEN_MINUTES = '[[rules]]\npath = "**"\nlisting = "10m"\nfreshness = "60s"\n'
IMMUTABLE = '[[rules]]\npath = "**"\nlisting = "immutable"\n'


async def listed(client: RawClient, target: str = LISTING) -> tuple[str, list[str]]:
    """x-forebay-cache, and the keys."""
    answer = await client.request("GET", target)
    assert answer.status == 200, answer.body
    return answer.headers["x-forebay-cache"], texts(answer, "Contents/Key")


def listings(origin: FakeOrigin) -> int:
    return origin.log.count(operation="ListObjectsV2") + origin.log.count(operation="ListObjects")
