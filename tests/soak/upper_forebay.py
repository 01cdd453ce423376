"""A second Forebay, which is the origin of the one under test: each request passes both.

It has no SSD tier, and validates with each read what others write to directly at the origin, so that the bounds of
freshness are those of the first one. Everything else is written through it, and stays fresh.
"""

from pathlib import Path
from typing import Final

from harness.fake.faults import Faults
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.rig import TRAINER, Rig
from soak.configuration import ALICE_THERE, BOB_THERE
from soak.foreign_bucket import FOREIGN

_RULES: Final = f"""
[[rules]]
path = "{FOREIGN}/**"
freshness = "always"

[[rules]]
path = "**"
freshness = "immutable"
block = "256KiB"
""" + "".join(
    f'[[auth.keys]]\nid = "{each.access}"\nsecret = "{each.secret}"\norigin_access_key = "{each.access}"\n'
    f'origin_secret_key = "{each.secret}"\ngrants = [{{ path = "**", allow = ["read", "list"] }}]\n'
    for each in (ALICE_THERE, BOB_THERE)
)


class UpperForebay:
    """See the module. It looks like an S3 origin."""

    def __init__(self, origin: FakeOrigin, directory: Path) -> None:
        self.faults: Faults = origin.faults
        self.secret = TRAINER
        self._rig = Rig(
            origin.endpoint,
            origin.secret,
            directory / "upper",
            dialect="oss" if isinstance(origin, OssOrigin) else "swift",
            memory="16MiB",
            buffers="32MiB",
            rest=_RULES,
        )

    @property
    def endpoint(self) -> str:
        return self._rig.endpoint

    async def start(self) -> None:
        await self._rig.start()

    async def stop(self) -> None:
        await self._rig.stop()
