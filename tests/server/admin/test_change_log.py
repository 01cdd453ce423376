"""What the log says of changes while Forebay serves."""

import pytest

from forebay.server.admin.change_log import change_sentence
from forebay.server.admin.schema.admin_schema import ConfigChanged, Purged, Resized
from forebay.server.admin.schema.pending_schema import PendingDiscarded, PendingRetried
from forebay.server.admin.schema.pin_schema import PinRemoved, PinView
from harness.admin_control import sample_write

GIB = 1 << 30
PIN = PinView("b", "train/", 0.0, None, None, 0, False)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (ConfigChanged((), ()), "the configuration was read again; nothing has changed"),
        (
            ConfigChanged(("rules", "memory.size"), ("server.listen",)),
            "the configuration was read again; changed: rules, memory.size; from the next start on: server.listen",
        ),
        (
            ConfigChanged(("ssd.size",), (), ("it is much", "too much")),
            "the configuration was read again; changed: ssd.size; it is much; too much",
        ),
        (Purged(1, 4096), "1 object was purged from the cache, 4KiB"),
        (Purged(0, 0), "0 objects were purged from the cache, 0B"),
        (Resized("memory", 4 * GIB, 8 * GIB), "the memory tier was resized from 4GiB to 8GiB"),
        (Resized("ssd", 4 * GIB, 8 * GIB, "too much"), "the ssd tier was resized from 4GiB to 8GiB; too much"),
        (PendingRetried(sample_write()), "the write 5d1c2f90aa31-17 of ckpts/run-7/step-17.pt is tried again"),
        (
            PendingDiscarded(sample_write(reason="the origin answered 403")),
            "the write 5d1c2f90aa31-17 of ckpts/run-7/step-17.pt, 3MiB, was discarded: the origin answered 403",
        ),
        (PIN, "s3://b/train/ was pinned"),
        (PinRemoved(PIN), "s3://b/train/ was unpinned"),
        ({"uptime": 1}, None),
    ],
)
def test_a_change_is_a_sentence(answer: object, sentence: str | None) -> None:
    assert change_sentence(answer) == sentence
