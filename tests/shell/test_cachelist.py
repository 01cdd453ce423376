from pathlib import Path

from forebay.shell.cachelist import LocalShelf, cached_objects
from forebay.stores.memory import MemoryTier
from forebay.stores.tiers import Tiers
from harness.ssd_rig import head_for, open_tier


async def test_names_that_are_passed_over_are_not_the_end(tmp_path: Path) -> None:
    """The SSD's listing knows 400 bytes of a key, so it looks at names that turn out not to be meant."""
    ssd = open_tier(tmp_path / "ssd")
    start = "p" * 400
    for number in range(30):
        ssd.put_head(*head_for(f"{start}a{number}"))
    meant = {f"{start}b{number}" for number in range(10)}
    for key in meant:
        ssd.put_head(*head_for(key))
    await ssd.flush()
    shelf = LocalShelf(Tiers(MemoryTier(1 << 20), ssd))
    assert {each.key for each in await shelf.on_ssd("bucket", f"{start}b", b"", 12)} == meant
    listing = await cached_objects([shelf], "bucket", f"{start}b", "", 12)
    assert ({each.name.key for each in listing.objects}, listing.next) == (meant, None)
    await ssd.close()
