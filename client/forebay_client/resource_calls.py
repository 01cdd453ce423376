"""The calls of a client that need Forebay: plans, warm-ups, flushes, data sets.

Where the server is no Forebay they do nothing, and say so (forebay_client.forebay_resources).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from forebay_client.forebay_resources import ForebayResources, PlanHandle, WarmHandle
from forebay_client.objects import BatchKey, CommonPrefix, ObjectInfo, checked_keys

if TYPE_CHECKING:
    import builtins


class ResourceCalls:
    """A part of Client, which has the resources of its server, and lists objects."""

    _resources: ForebayResources

    def list(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = ""
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """See Client."""
        raise NotImplementedError

    def plan(
        self, bucket: str, name: str, keys: Iterable[str | BatchKey], *, order: Iterable[int] | None = None
    ) -> PlanHandle:
        """Tells Forebay the order in which keys will be read from now on, so that they are there before they are read.

        A plan replaces the one of its name; names that agree up to their last slash are a series (docs/plans.md). Any
        other server is told nothing: `is_accepted` of the handle is False then.

        Args:
            order: Numbers of `keys`, from 0, in the order of reading: then `keys` are all keys of the data set, which
                are sent once, and each plan is four bytes an entry. Pass the same sequence of keys each time.
        """
        return self._resources.plan(bucket, name, checked_keys(keys), order)

    def warm(self, bucket: str, objects: str | Sequence[str]) -> WarmHandle:
        """Has Forebay bring objects into its cache, in the background.

        Args:
            objects: A prefix, of which every object is meant, or keys. The right to read all of a prefix is needed;
                keys that may not be read are left out.

        Returns:
            The job, as `forebay jobs` shows it. Any other server is told nothing: `is_accepted` is False then.
        """
        return self._resources.warm(bucket, objects)

    def flush(self, bucket: str, prefix: str = "", timeout: float | None = None) -> None:
        """Returns once every write below `prefix` that was acknowledged before is at the origin.

        Without Forebay, and without write-back, each write is there when it is acknowledged: this returns at once.

        Raises:
            ServiceUnavailable: There are still some after `timeout` seconds.
        """
        self._resources.flush(bucket, prefix, timeout)

    def datasets(self, bucket: str) -> "builtins.list[dict[str, Any]]":
        """The data sets of the bucket that Forebay has rules for, and that may be read entirely: what `forebay datasets
        --json` shows of each. Empty without Forebay."""
        listed = self.list(bucket, ".forebay/datasets/")
        return self._resources.datasets(bucket, (each for each in listed if isinstance(each, ObjectInfo)))
