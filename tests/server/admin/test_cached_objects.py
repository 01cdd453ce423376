from pathlib import Path

from forebay.server.admin.cached_objects import LocalCacheView, list_cached_objects
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from harness.ssd_rig import head_for, open_tier


async def test_a_short_batch_of_names_is_not_the_end(tmp_path: Path) -> None:
    """The SSD tier's listing compares 400 bytes of a key, so a batch may contain names that do not match."""
    ssd = open_tier(tmp_path / "ssd")
    start = "p" * 400
    for number in range(30):
        ssd.put_head(*head_for(f"{start}a{number}"))
    meant = {f"{start}b{number}" for number in range(10)}
    for key in meant:
        ssd.put_head(*head_for(key))
    await ssd.flush()
    shelf = LocalCacheView(Tiers(MemoryTier(1 << 20), ssd))
    assert {each.key for each in await shelf.ssd_entries("bucket", f"{start}b", b"", 12)} == meant
    listing = await list_cached_objects([shelf], "bucket", f"{start}b", "", 12)
    assert ({each.name.key for each in listing.objects}, listing.next) == (meant, None)
    await ssd.close()


async def test_long_common_prefixes_are_listed_in_order(
    tmp_path: Path,
) -> None:
    ssd = open_tier(tmp_path / "ssd")
    start = "p" * 410
    keys = [
        *(f"{start}{number:02}" for number in range(24)),
        "a",
        "z",
        "p" * 392,
        "p" * 393,
        "p" * 394,
        f"{start[:-1]}q",
    ]
    for key in keys:
        ssd.put_head(*head_for(key))
    await ssd.flush()
    memory = MemoryTier(1 << 20)
    for key in (f"{start}03x", f"{start}17x", "b"):
        memory.put_head(*head_for(key))
        keys.append(key)
    shelf = LocalCacheView(Tiers(memory, ssd))
    for limit in (1, 5, 100):
        found, after = list[str](), ""
        while True:
            listing = await list_cached_objects([shelf], "bucket", "", after, limit)
            found += [each.name.key for each in listing.objects]
            if listing.next is None:
                break
            after = listing.next
        assert found == sorted(keys)
    assert await ssd.purge("bucket", start[:405]) == 25
    await ssd.close()


async def test_pages_of_many_objects_in_memory_are_whole() -> None:
    """However many steps of names it takes, in whatever order: each page has the first keys beyond the one before."""
    memory, keys = MemoryTier(64 << 20), [f"k{number * 7919 % 3000:04}" for number in range(3000)]
    for key in keys:
        memory.put_head(*head_for(key))
    view, found = LocalCacheView(Tiers(memory, None)), list[str]()
    while page := await view.memory_heads("bucket", "k", found[-1] if found else "", 400):
        assert len(page) <= 400
        found += page
    assert found == sorted(keys)
