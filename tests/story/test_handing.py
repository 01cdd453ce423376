"""What is asked of other workers before an upload is completed."""

from types import SimpleNamespace
from typing import Any, cast

from forebay.flights.peers import Peers
from forebay.protocol.documents import UploadedPart
from forebay.protocol.target import parse_target
from forebay.stores.tiers import Tiers
from forebay.story.handing import Handing
from forebay.story.passing import Parcel
from forebay.story.uploads import Uploads


async def test_a_worker_that_is_beginning_knows_of_no_part() -> None:
    """It answers everything as it answers what a worker asks that begins itself."""
    asked: list[dict[str, Any]] = []

    async def gather(question: dict[str, Any]) -> dict[int, dict[str, Any]]:
        asked.append(question)
        return {1: {"doubts": []}}

    peers = cast("Peers", SimpleNamespace(others={1: None}, gather=gather))
    staged = Uploads()
    target = parse_target("/bucket/key?uploadId=upload", "host", ())
    parcel = cast("Parcel", SimpleNamespace(target=target))
    await Handing(peers, staged, cast("Tiers", None)).bring(parcel, [UploadedPart(1, '"etag"')])
    assert [question["kind"] for question in asked] == ["staged"]
    assert staged.missing(target.name, "upload", [UploadedPart(1, '"etag"')]) == [UploadedPart(1, '"etag"')]
