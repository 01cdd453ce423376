"""Access: the module's table, operation by operation, and that nothing is allowed without a grant."""

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.policy.access import (
    COPIES,
    LISTINGS,
    PROBES,
    Permit,
    Prefix,
    ReadPermits,
    authorise,
    authorise_keys,
    authorise_resources,
    permit_read,
)
from forebay.policy.grants import (
    Grant,
    Principal,
)
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operation_table import OPERATIONS
from forebay.protocol.operations import Access, Effect, Level, Operation
from forebay.protocol.target import Target, parse_target
from forebay.settings.model import ANONYMOUS_ID
from policy.principals import principal

READ, WRITE, LIST, DELETE = Access.READ, Access.WRITE, Access.LIST, Access.DELETE
BY_NAME = {
    operation.name: operation
    for operation in (
        Operation("GetObject", "object", READ, Effect.NOTHING, True),
        Operation("HeadObject", "object", READ, Effect.NOTHING, True),
        Operation("PutObject", "object", WRITE, Effect.OBJECT, False),
        Operation("DeleteObject", "object", DELETE, Effect.OBJECT, False),
        Operation("CopyObject", "object", WRITE, Effect.OBJECT, False),
        Operation("UploadPartCopy", "object", WRITE, Effect.NOTHING, False),
        Operation("UnknownGet", "object", READ, Effect.NOTHING, False),
        Operation("ListObjects", "bucket", LIST, Effect.NOTHING, False),
        Operation("ListObjectsV2", "bucket", LIST, Effect.NOTHING, False),
        Operation("ListObjectVersions", "bucket", LIST, Effect.NOTHING, False),
        Operation("ListMultipartUploads", "bucket", LIST, Effect.NOTHING, False),
        Operation("DeleteObjects", "bucket", DELETE, Effect.LISTED_KEYS, False),
        Operation("HeadBucket", "bucket", LIST, Effect.NOTHING, False),
        Operation("GetBucketLocation", "bucket", READ, Effect.NOTHING, False),
        Operation("GetBucketPolicy", "bucket", READ, Effect.NOTHING, False),
        Operation("CreateBucket", "bucket", WRITE, Effect.NOTHING, False),
        Operation("DeleteBucket", "bucket", DELETE, Effect.BUCKET, False),
        Operation("ListBuckets", "service", LIST, Effect.NOTHING, False),
    )
}


def target(raw: str) -> Target:
    return parse_target(raw, "", ())


def ask(
    who: Principal, operation: Operation, where: Target, source: ObjectName | None, keys: list[str] | None
) -> Permit:
    if keys is not None and operation.effect is Effect.LISTED_KEYS:
        return run_to_completion(authorise_keys(who, operation, where, keys))
    return authorise(who, operation, where, source=source)


def allowed(
    who: Principal, name: str, raw: str, source: ObjectName | None = None, keys: list[str] | None = None
) -> bool:
    try:
        ask(who, BY_NAME[name], target(raw), source, keys)
    except S3Error as error:
        if error.code != "AccessDenied":
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("name", "raw", "path", "allow", "yes"),
    [
        # An object: the operation's access on its path.
        ("GetObject", "/b/x", "b/**", "r", True),
        ("GetObject", "/b/x", "b/**", "wld", False),
        ("GetObject", "/b/x", "c/**", "rwld", False),
        ("HeadObject", "/b/x", "b/x", "r", True),
        ("HeadObject", "/b/x", "b/**", "l", False),
        ("PutObject", "/b/x", "b/**", "w", True),
        ("PutObject", "/b/x", "b/**", "rld", False),
        ("DeleteObject", "/b/x", "b/**", "d", True),
        ("DeleteObject", "/b/x", "b/**", "rwl", False),
        ("UnknownGet", "/b/x", "b/**", "r", True),
        ("UnknownGet", "/b/x", "b/**", "l", False),
        # A path is decoded once, before it is matched.
        ("GetObject", "/b/private%2Fx", "b/public/**", "r", False),
        ("GetObject", "/b/public%2Fx", "b/public/**", "r", True),
        ("GetObject", "/b/public%252Fx", "b/public/**", "r", False),
        ("GetObject", "/b/public/../private/x", "b/private/**", "r", False),
        # A listing: its prefix.
        ("ListObjectsV2", "/b?list-type=2", "b/**", "l", True),
        ("ListObjectsV2", "/b?list-type=2", "b/a/**", "l", False),
        ("ListObjectsV2", "/b?list-type=2&prefix=a/", "b/a/**", "l", True),
        ("ListObjectsV2", "/b?list-type=2&prefix=a%2Fb", "b/a/**", "l", True),
        ("ListObjectsV2", "/b?list-type=2&prefix=a", "b/a/**", "l", False),
        ("ListObjectsV2", "/b?list-type=2&prefix=a/", "b/a/*", "l", False),
        ("ListObjectsV2", "/b?list-type=2&prefix=a/", "b/a/**", "rwd", False),
        ("ListObjectsV2", "/b?list-type=2&prefix=a/&prefix=", "b/a/**", "l", False),
        ("ListObjectsV2", "/b?list-type=2&prefix=&prefix=a/", "b/a/**", "l", False),
        ("ListObjects", "/b?prefix=a/", "b/a/**", "l", True),
        ("ListObjectVersions", "/b?versions&prefix=a/", "b/a/**", "l", True),
        ("ListMultipartUploads", "/b?uploads&prefix=a/", "b/a/**", "l", True),
        ("ListMultipartUploads", "/b?uploads", "b/a/**", "l", False),
        # Probes that SDKs send before they read.
        ("HeadBucket", "/b", "b/a/**", "r", True),
        ("HeadBucket", "/b", "b/a/x", "w", True),
        ("HeadBucket", "/b", "c/**", "rwld", False),
        ("HeadBucket", "/b", "bb/**", "rwld", False),
        ("GetBucketLocation", "/b", "b/a/**", "l", True),
        ("GetBucketLocation", "/b", "c/**", "rwld", False),
        # The whole bucket; a prefix in the query does not make it less.
        ("GetBucketPolicy", "/b?policy", "b/**", "r", True),
        ("GetBucketPolicy", "/b?policy&prefix=a/", "b/a/**", "r", False),
        ("GetBucketPolicy", "/b?policy", "b/**", "wld", False),
        ("CreateBucket", "/b", "b/**", "w", True),
        ("CreateBucket", "/b", "b/a/**", "w", False),
        ("CreateBucket", "/b", "b/**", "rld", False),
        ("DeleteBucket", "/b", "b/**", "d", True),
        ("DeleteBucket", "/b", "b/*", "d", False),
        ("DeleteObjects", "/b?delete", "b/a/**", "d", True),
        ("DeleteObjects", "/b?delete", "b/**", "wl", False),
        ("DeleteObjects", "/b?delete", "b/a/**", "r", True),  # resources, once the keys are known
        ("DeleteObjects", "/b?delete", "c/**", "d", False),
        # The service.
        ("ListBuckets", "/", "**", "l", True),
        ("ListBuckets", "/", "**", "rwd", False),
        ("ListBuckets", "/", "b/**", "l", False),
        ("ListBuckets", "/", "*/**", "l", False),
        # A level that is not the target's.
        ("GetObject", "/b", "**", "rwld", False),
        ("GetObject", "/", "**", "rwld", False),
        ("GetBucketPolicy", "/b/x", "**", "rwld", False),
        ("GetBucketPolicy", "/", "**", "rwld", False),
        ("ListBuckets", "/b", "**", "rwld", False),
    ],
)
def test_a_single_grant(name: str, raw: str, path: str, allow: str, yes: bool) -> None:
    assert allowed(principal((path, allow)), name, raw) is yes


@pytest.mark.parametrize("name", ["GetObject", "HeadObject", "PutObject", "DeleteObject"])
def test_a_resource_needs_a_right_to_read_in_its_bucket(name: str) -> None:
    raw = "/b/.forebay/plans/a"
    assert allowed(principal(("b/open/**", "r")), name, raw)
    assert not allowed(principal(("b/.forebay/**", "wld"), ("c/**", "rwld")), name, raw)
    assert not allowed(replace(principal(("b/**", "rwld")), id=ANONYMOUS_ID), name, raw)


def test_a_right_to_read_deletes_resources_by_a_batch_and_no_object() -> None:
    reader, batch = principal(("b/open/**", "r")), BY_NAME["DeleteObjects"]
    authorise_resources(reader, batch, "b")
    assert not allowed(reader, "DeleteObjects", "/b?delete", keys=["open/a"])
    for nobody in (replace(reader, id=ANONYMOUS_ID), principal(("b/**", "wld"), ("c/**", "rwld"))):
        with pytest.raises(S3Error, match="AccessDenied"):
            authorise_resources(nobody, batch, "b")
    with pytest.raises(S3Error, match="NotImplemented"):
        authorise_resources(reader, BY_NAME["UnknownGet"], "b")


@pytest.mark.parametrize("name", ["ListObjects", "ListObjectsV2"])
def test_resources_are_listed_by_who_may_read_in_the_bucket(name: str) -> None:
    raw = "/b?prefix=.forebay%2Fplans"
    assert allowed(principal(("b/open/**", "r")), name, raw)
    assert not allowed(principal(("b/**", "wld")), name, raw)
    assert not allowed(principal(("b/open/**", "rwld")), name, f"{raw}&prefix=open%2F")
    assert not allowed(principal(("b/open/**", "rwld")), name, "/b?prefix=.forebay"), "the origin's listing"


@pytest.mark.parametrize(
    ("name", "raw", "source", "keys"),
    [
        ("UnknownGet", "/b/.forebay/plans/a?x", None, None),
        ("CopyObject", "/b/.forebay/plans/a", ObjectName("b", "k"), None),
        ("CopyObject", "/b/k", ObjectName("b", ".forebay/plans/a"), None),
        ("UploadPartCopy", "/b/k", ObjectName("b", ".forebay/plans/a"), None),
        ("ListObjectVersions", "/b?prefix=.forebay%2F", None, None),
        ("ListMultipartUploads", "/b?prefix=.forebay%2F", None, None),
        ("DeleteObjects", "/b", None, ["k", ".forebay/plans/a"]),
    ],
)
def test_no_other_operation_reaches_a_resource(
    name: str, raw: str, source: ObjectName | None, keys: list[str] | None
) -> None:
    with pytest.raises(S3Error, match="NotImplemented"):
        allowed(principal(("**", "rwld")), name, raw, source, keys)


@pytest.mark.parametrize("name", BY_NAME)
def test_without_a_grant_nothing_is_allowed(name: str) -> None:
    raw = {"object": "/b/x", "bucket": "/b", "service": "/"}[BY_NAME[name].level]
    assert not allowed(principal(), name, raw, ObjectName("b", "x"), ["x"])
    assert not allowed(principal(("**", "")), name, raw, ObjectName("b", "x"), ["x"])


@pytest.mark.parametrize("raw", ["/b/x", "/c/y", "/b/y"])
def test_a_denial_never_says_why(raw: str) -> None:
    with pytest.raises(S3Error) as denied:
        authorise(principal(("b/x", "w")), BY_NAME["GetObject"], target(raw))
    assert (denied.value.code, denied.value.status, denied.value.details) == ("AccessDenied", 403, {})
    assert denied.value.message == "Access denied."


@pytest.mark.parametrize(
    ("name", "raw", "source", "keys", "missing"),
    [
        ("GetObject", "/b/x%0Ay", None, None, "GetObject: key trainer has no grant with read for 'b/x\\ny'"),
        ("CopyObject", "/w/x", ObjectName("c", "y"), None, "CopyObject: key trainer has no grant with read for 'c/y'"),
        (
            "DeleteObjects",
            "/w?delete",
            None,
            ["a", "z"],
            "DeleteObjects: key trainer has no grant with delete for 'w/z'",
        ),
        ("ListObjectsV2", "/b?prefix=x", None, None, "ListObjectsV2: key trainer has no grant with list for 'b/x**'"),
        ("ListBuckets", "/", None, None, "ListBuckets: key trainer has no grant with list for '/'"),
    ],
)
def test_a_denial_names_the_missing_grant_for_the_log(
    name: str, raw: str, source: ObjectName | None, keys: list[str] | None, missing: str
) -> None:
    with pytest.raises(S3Error) as denied:
        ask(principal(("w/**", "w"), ("w/a", "d")), BY_NAME[name], target(raw), source, keys)
    assert denied.value.log_reason == missing


def test_the_operations_named_here_are_those_of_the_catalogue() -> None:
    rows = {row.name: row for row in OPERATIONS}
    assert all(rows[name].level == "bucket" and rows[name].access is LIST for name in LISTINGS)
    assert {row.name for row in OPERATIONS if row.is_copy} == COPIES
    assert all(rows[name].level == "bucket" for name in PROBES)
    # A listing that is not in LISTINGS would need a grant of the whole bucket: safe, but not intended.
    assert {row.name for row in OPERATIONS if row.level == "bucket" and "prefix" in row.optional} == LISTINGS


@pytest.mark.parametrize("name", sorted(COPIES))
def test_a_copy_also_reads_its_source(name: str) -> None:
    writer = principal(("b/**", "w"), ("c/public/**", "r"))
    assert allowed(writer, name, "/b/x", ObjectName("c", "public/1"))
    assert not allowed(writer, name, "/b/x", ObjectName("c", "private/1"))
    assert not allowed(writer, name, "/b/x", ObjectName("b", "x"))
    assert not allowed(writer, name, "/b/x", None)
    assert not allowed(principal(("c/**", "r")), name, "/b/x", ObjectName("c", "public/1"))
    permit = authorise(writer, BY_NAME[name], target("/b/x"), source=ObjectName("c", "public/1"))
    assert permit.source == ObjectName("c", "public/1")
    assert not permit.covers(ObjectName("c", "public/1"))


def test_a_source_is_authorised_for_any_operation() -> None:
    assert not allowed(principal(("b/**", "w")), "PutObject", "/b/x", ObjectName("c", "x"))


def test_every_listed_key_is_authorised() -> None:
    who = principal(("b/a/**", "d"), ("b/c", "d"), ("b/**", "r"))
    assert allowed(who, "DeleteObjects", "/b?delete", keys=["a/1", "a/2", "c"])
    assert not allowed(who, "DeleteObjects", "/b?delete", keys=["a/1", "d"])


def test_only_an_operation_that_lists_keys_has_keys_authorised() -> None:
    with pytest.raises(S3Error, match="Access"):
        run_to_completion(authorise_keys(principal(("**", "rwld")), BY_NAME["GetObject"], target("/b/x"), ["x"]))


def test_many_keys_are_authorised_in_steps() -> None:
    keys = [f"{number}/{'k' * 900}" for number in range(1000)]
    single, many = (principal(*[("b/*/x", "d")] * number, ("b/**", "d")) for number in (1, 10))
    for who, least in ((single, 300), (many, 1000)):
        steps = sum(1 for _ in authorise_keys(who, BY_NAME["DeleteObjects"], target("/b?delete"), keys))
        assert least <= steps <= 1000


def test_before_its_keys_are_known_a_batch_covers_none() -> None:
    who = principal(("b/**", "d"))
    before = authorise(who, BY_NAME["DeleteObjects"], target("/b?delete"))
    assert not before.covers(ObjectName("b", "x"))
    after = run_to_completion(authorise_keys(who, BY_NAME["DeleteObjects"], target("/b?delete"), ["x"]))
    assert after.covers(ObjectName("b", "x"))
    assert not after.covers(ObjectName("b", "y"))


def test_a_permit_names_its_principal_and_scope() -> None:
    permit = authorise(principal(("b/**", "r")), BY_NAME["GetObject"], target("/b/x"))
    assert (permit.principal, permit.operation, permit.access) == ("trainer", "GetObject", READ)
    assert permit.covers(ObjectName("b", "x"))
    assert not permit.covers(ObjectName("b", "x/"))
    assert not permit.covers(ObjectName("c", "x"))
    listing = authorise(principal(("b/a/**", "l")), BY_NAME["ListObjects"], target("/b?prefix=a/"))
    assert listing.scope == Prefix("b", "a/")
    assert listing.covers(ObjectName("b", "a/1"))
    assert not listing.covers(ObjectName("b", "ab"))
    assert not listing.covers(ObjectName("c", "a/1"))


def test_a_bare_bucket_permit_covers_no_object() -> None:
    permit = authorise(principal(("b/**", "rl")), BY_NAME["HeadBucket"], target("/b"))
    assert not permit.covers(ObjectName("b", "x"))


def test_nobody_else_makes_a_permit() -> None:
    permit = authorise(principal(("b/**", "r")), BY_NAME["GetObject"], target("/b/x"))
    with pytest.raises(TypeError, match="authorise"):
        Permit("trainer", "GetObject", READ, frozenset({ObjectName("b", "y")}), None, object())
    with pytest.raises((TypeError, ValueError), match="seal"):
        replace(permit, scope=None)  # type: ignore[call-arg]  # that the seal is missing is what is shown
    with pytest.raises(AttributeError):
        permit.scope = None  # type: ignore[misc]  # that it is frozen is what is shown


@pytest.mark.parametrize(
    "strange",
    [
        replace(BY_NAME["GetObject"], access=cast("Access", "READ")),
        replace(BY_NAME["GetObject"], level=cast("Level", "galaxy")),
    ],
)
def test_an_operation_of_no_known_access_or_level_is_denied(strange: Operation) -> None:
    grant = Grant(Pattern("**"), frozenset({*Access, cast("Access", "READ")}))
    with pytest.raises(S3Error, match="AccessDenied"):
        authorise(Principal("trainer", (grant,)), strange, target("/b/x"))


paths = st.sampled_from(["**", "b/**", "b/a/**", "b/a/*", "b/a/1", "*/a/**", "c/**", "**/1"])
grants = st.lists(st.tuples(paths, st.text("rwld", max_size=3)), max_size=4)
keys = st.sampled_from(["1", "a/1", "a/2", "a/b/1", "x"])


@given(grants, st.sampled_from(sorted(BY_NAME)), st.sampled_from("bc"), keys, st.lists(keys, max_size=3))
def test_everything_a_permit_covers_is_granted(
    drawn_grants: list[tuple[str, str]], name: str, bucket: str, key: str, listed: list[str]
) -> None:
    who, operation = principal(*drawn_grants), BY_NAME[name]
    raw = {"object": f"/{bucket}/{key}", "bucket": f"/{bucket}?prefix={key}", "service": "/"}[operation.level]
    source = ObjectName("b", key) if name in COPIES else None
    try:
        permit = ask(who, operation, target(raw), source, listed)
    except S3Error:
        return
    if source is not None:
        assert any(READ in grant.allow and grant.pattern.matches(source.path) for grant in who.grants)
    if name in PROBES:
        assert any(grant.allow and grant.pattern.reaches_into(f"{bucket}/") for grant in who.grants)
        return
    covered = [
        ObjectName(some, begin + rest) for some in "bc" for begin in ("", key) for rest in ("", "!", "/1", *listed)
    ]
    for object_name in filter(permit.covers, covered):
        assert any(operation.access in grant.allow and grant.pattern.matches(object_name.path) for grant in who.grants)
    if operation.level == "object":
        assert permit.covers(ObjectName(bucket, key))
    elif name in LISTINGS:
        assert permit.covers(ObjectName(bucket, key + "/1"))
    elif operation.level == "service":
        assert any(operation.access in grant.allow and grant.pattern.text == "**" for grant in who.grants)


@pytest.mark.parametrize(
    "grants",
    [
        [("**", "r")],
        [("b/**", "r")],
        [("b/**", "wl")],
        [("b/open/**", "r"), ("b/**", "w")],
        [("*/open/*", "r")],
        [("other/**", "r")],
        [],
    ],
)
def test_permits_of_a_batch_are_those_of_each_read(grants: list[tuple[str, str]]) -> None:
    who = principal(*grants)
    permits = ReadPermits(who, "b")
    for key in ("open/k", "open/a/b", "closed", ".forebay/plans/x", ".forebay/batch", ".forebay", ""):
        name = ObjectName("b", key)
        alone, batched = permit_read(who, name), permits.permit(name)
        assert (alone is None) == (batched is None), key
        if batched is not None:
            assert (batched.principal, batched.access, batched.covers(name)) == ("trainer", READ, True)
            assert not batched.covers(ObjectName("other", key))


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ([("**", "r")], {"open/k", "open/a/b", "closed"}),
        ([("b/**", "w")], set()),
        ([("b/open/**", "r"), ("b/**", "wl")], {"open/k", "open/a/b"}),
        ([("*/open/*", "r")], {"open/k"}),
        ([("other/**", "r")], set()),
    ],
)
def test_only_keys_of_objects_that_a_grant_reads_are_permitted(
    grants: list[tuple[str, str]], expected: set[str]
) -> None:
    who = principal(*grants)
    names = [ObjectName("b", key) for key in ("open/k", "open/a/b", "closed", ".forebay/plans/x")]
    assert {name.key for name in names if permit_read(who, name) is not None} == expected
    assert {name.key for name in names if ReadPermits(who, "b").permit(name) is not None} == expected
