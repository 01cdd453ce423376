"""Objects as a map data set: sample i is the object of key i, and a batch is one round trip.

    dataset = ForebayMapDataset.from_prefix("s3://datasets/train/", transform=decode)
    loader = planned(DataLoader(dataset, batch_size=256, shuffle=True, num_workers=8))

The workers of a loader may be forked or spawned; each has connections of its own. With `batch_size=None` a loader asks
for one sample at a time, and then each is a round trip.
"""

from collections.abc import Sequence
from typing import Any

import torch.utils.data

from forebay_client.torch.object_dataset import ObjectDataset


class ForebayMapDataset(ObjectDataset, torch.utils.data.Dataset):
    """The objects of `samples`, by index. The arguments are those of ObjectDataset. Objects under a prefix are listed
    at the first use of the length or a sample."""

    def __len__(self) -> int:
        return len(self.samples_read)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        # A loader's worker calls this with a batch. Raises the ClientError of the first sample that can't be read.
        return [self._transform(sample) for sample in self._read(indices)]
