"""The table of namespaces: the order of use, what is dropped, what a write marks."""

from pathlib import Path

from forebay.core.names import ObjectName
from forebay.namespace.namespaces import MAX_NAMESPACES, Namespaces
from harness.listed_keys import snapshot_in


def test_the_least_recently_used_give_way_to_a_new_file(tmp_path: Path) -> None:
    table = Namespaces(tmp_path, 1 << 20)
    for number in range(MAX_NAMESPACES + 1):
        table.use(f"bucket-{number}", "")
    table.use("bucket-0", "")
    table.new_file()
    assert len(table) == MAX_NAMESPACES
    assert table.find("bucket-0", "") is not None
    assert table.find("bucket-1", "") is None


def test_a_purge_drops_what_overlaps() -> None:
    table = Namespaces(None, 1 << 20)
    for prefix in ("", "a/", "a/b/", "c/"):
        table.use("bucket", prefix)
    table.use("other", "a/")
    table.drop_under("bucket", "a/b/x")
    assert [(each.bucket, each.prefix) for each in table] == [("bucket", "c/"), ("other", "a/")]


def test_a_write_marks_the_snapshots_that_may_show_it(tmp_path: Path) -> None:
    table = Namespaces(None, 1 << 20)
    overlays = {}
    for bucket, prefix in (("bucket", ""), ("bucket", "a/"), ("bucket", "b/"), ("other", "")):
        snapshot = table.use(bucket, prefix).snapshot = snapshot_in(tmp_path, prefix)
        overlays[bucket, prefix] = snapshot.overlay
    table.fence(ObjectName("bucket", "a/x"))
    table.fence(ObjectName("bucket", ""))  # of the bucket's CORS rules
    assert {each: len(overlay) for each, overlay in overlays.items()} == {
        ("bucket", ""): 1,
        ("bucket", "a/"): 1,
        ("bucket", "b/"): 0,
        ("other", ""): 0,
    }
