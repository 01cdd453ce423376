"""The samples of the job that is killed: small ones and some of several blocks, each with bytes of its own."""

from random import Random

BUCKET = "bucket"
COUNT = 240
BATCH = 8
KEYS = [f"train/{number:04}.bin" for number in range(COUNT)]
_SIZES = (500, 20_000, 20_000, 150_000)


def sample_content(number: int) -> bytes:
    """The bytes of one."""
    return Random(number).randbytes(_SIZES[number % len(_SIZES)] + number)
