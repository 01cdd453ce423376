"""Explanations: which rule and grant decide, and what a read would do."""

import pytest

from forebay.core.names import ObjectName
from forebay.server.admin.explanation import explain
from forebay.server.admin.schema.admin_schema import CacheEntry, DecidedField, Explanation, GrantedAccess, MemberPlace
from forebay.server.admin.schema.object_state import ObjectState
from forebay.settings.loader import load_settings

SETTINGS = load_settings(
    """
[server]
listen = "127.0.0.1:0"
[origin]
endpoint = "http://h"
[[auth.keys]]
id = "reader"
secret = "s"
grants = [{ path = "other/**", allow = ["write"] }, { path = "data/**", allow = ["read", "list"] }]
[[auth.keys]]
id = "nobody"
secret = "s"
grants = []
[[auth.keys]]
id = "own"
secret = "s"
origin_access_key = "own"
origin_secret_key = "s"
grants = [{ path = "data/**", allow = ["read"] }]
[[rules]]
path = "data/raw/**"
accelerate = false
[[rules]]
path = "data/images/**"
packed = "packed/**"
[[rules]]
path = "data/**"
freshness = "immutable"
fence = ["**/.metadata", "**/latest*"]
[[rules]]
path = "**"
freshness = "60s"
block = "8MiB"
""",
    {},
    {},
    str,
).settings
NAME = ObjectName("data", "a")
WHOLE = CacheEntry("data", "a", 100, '"e"', 100, 0, 100, 1000.0)
PART = CacheEntry("data", "a", 100, '"e"', 40, 0, 40, 1000.0)


def explained(
    name: ObjectName = NAME,
    key: str = "reader",
    cached: CacheEntry | None = None,
    *,
    in_doubt: bool = False,
    pending: str | None = None,
) -> Explanation:
    return explain(SETTINGS, name, key, cached, state=ObjectState(in_doubt, pending), now=2000.0)


def test_the_rule_that_decides_each_field() -> None:
    assert explained().decided == (
        DecidedField("accelerate", "true", None, None),
        DecidedField("freshness", "immutable", 2, "data/**"),
        DecidedField("block", "8MiB", 3, "**"),
        DecidedField("warm_on_write", "false", None, None),
        DecidedField("warm_on_head", "false", None, None),
        DecidedField("read_ahead", "0B", None, None),
        DecidedField("write", "through", None, None),
        DecidedField("conflict", "keep", None, None),
        DecidedField("fence", "**/.metadata, **/latest*", 2, "data/**"),
        DecidedField("listing", "off", None, None),
        DecidedField("packed", "none", None, None),
        DecidedField("plan_horizon", "256MiB", None, None),
        DecidedField("record", "false", None, None),
        DecidedField("follow", "false", None, None),
        DecidedField("eviction", "lru", None, None),
        DecidedField("quota", "none", None, None),
    )


def test_the_grants_that_apply() -> None:
    assert explained().access == (GrantedAccess("reader", ("list", "read"), (1,)),)
    assert explained(key="").access[1] == GrantedAccess("nobody", (), ())


@pytest.mark.parametrize(
    ("cached", "in_doubt", "fresh", "read"),
    [
        (None, False, None, "fetched from the origin"),
        (WHOLE, False, True, "a hit"),
        (PART, False, True, "60 of 100 bytes are fetched"),
        (WHOLE, True, False, "revalidated at the origin; if it is unchanged, all bytes come from the cache"),
    ],
)
def test_what_a_read_would_do(cached: CacheEntry | None, in_doubt: bool, fresh: bool | None, read: str) -> None:
    found = explained(cached=cached, in_doubt=in_doubt)
    assert found.fresh is fresh
    assert read in found.read


def test_a_stale_head_says_why() -> None:
    other = CacheEntry("other", "a", 100, '"e"', 100, 0, 100, 1000.0)
    found = explain(SETTINGS, other.name, "", other, state=ObjectState(), now=2000.0)
    assert found.fresh is False
    assert found.stale_because == "its validation is older than the rule allows"


def test_a_member_of_a_pack_has_a_place() -> None:
    name, member = ObjectName("data", "images/a"), MemberPlace("packed/0.tar", 512, 100)
    shard = CacheEntry("data", "packed/0.tar", 4096, '"e"', 4096, 0, 4096, 1000.0)
    found = explain(SETTINGS, name, "reader", None, shard, state=ObjectState(member=member), now=2000.0)
    assert (found.member, found.shard) == (member, shard)
    assert found.read == "the member of a pack, from its shard"
    refused = explain(SETTINGS, name, "nobody", None, shard, state=ObjectState(member=member), now=2000.0)
    assert "AccessDenied" in refused.read


def test_refused_and_forwarded_reads() -> None:
    assert "AccessDenied" in explained(key="nobody").read
    assert "InvalidAccessKeyId" in explained(key="unknown").read
    assert explained(ObjectName("data", "images/a")).read.startswith("the member of a pack, if")
    assert explained(ObjectName("data", ".forebay/plans/a")).read.startswith("answered by Forebay itself")
    assert explained(ObjectName("data", "raw/a")).read == "forwarded to the origin: the rules do not accelerate it"


@pytest.mark.parametrize(
    ("key", "pending", "read"),
    [
        ("reader", "put", "served as it was written: the write is in the journal, and not at the origin yet"),
        ("reader", "delete", "refused: its deletion is in the journal, and not at the origin yet (NoSuchKey)"),
        ("own", "put", "waits until the pending write is at the origin, which then decides"),
    ],
)
def test_a_pending_write_decides_what_is_read(key: str, pending: str, read: str) -> None:
    found = explained(key=key, cached=WHOLE, pending=pending)
    assert (found.pending, found.read) == (pending, read)
    assert "AccessDenied" in explained(key="nobody", pending=pending).read
