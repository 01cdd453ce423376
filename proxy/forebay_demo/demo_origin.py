"""The origin of those who have none: an embedded Swift with the sample set in it.

For `forebay demo`, and for `forebay serve` without a configured origin.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay_demo.embedded_swift import EmbeddedSwift
from forebay_demo.sample_reader import s3_client
from forebay_demo.samples import samples, write_samples


@contextmanager
def demo_origin(directory: Path) -> Iterator[EmbeddedSwift]:
    """A running origin that holds the sample set. Its first start in `directory` takes some seconds to write it, others
    half a second. Blocking. DemoUnavailable when it can't run here."""
    with EmbeddedSwift(directory) as origin:
        client = s3_client(origin.endpoint, origin.access_key, origin.secret_key, origin.region)
        try:
            write_samples(client, samples())
        finally:
            client.close()
        yield origin
