"""Training on OSS as Alibaba's documentation has it, with another endpoint: oss2 puts tensors, an OssMapDataset feeds a
DataLoader, and an OssCheckpoint takes and gives the model.

After https://www.alibabacloud.com/help/en/oss/user-guide/oss-connector-for-ai-ml-quick-start, with a smaller model and
tensors for pictures, so that it needs no torchvision. It tells the connector nothing of the region, which is inferred
from the endpoint: so that is a name of the form that Alibaba's have.
"""

import io
from typing import Any

import oss2
import torch
from oss2.credentials import StaticCredentialsProvider
from osstorchconnector import OssCheckpoint, OssMapDataset
from torch import nn, optim  # likewise
from torch.utils.data import DataLoader

from compat.errand import Errand, equal
from compat.errands.osstorchconnector import connector_files

REGION = "cn-hangzhou"
IMAGES = 24


def transform(found: Any) -> tuple[Any, Any, str]:
    """An object as picture, label and key; its label is the last segment but one of /BUCKET/KEY."""
    picture = torch.load(io.BytesIO(found.read()))
    return picture, torch.tensor(int(found.key.split("/")[-2])), found.key.split("/", 2)[2]


def main() -> None:
    errand = Errand.begin(torch.__version__.partition("+")[0])
    endpoint, files = errand.endpoint, connector_files(errand)

    auth = oss2.ProviderAuthV4(StaticCredentialsProvider(errand.access, errand.secret))
    bucket = oss2.Bucket(auth, endpoint, errand.bucket, region=REGION)
    generator = torch.Generator().manual_seed(7)
    pictures = {}
    for number in range(IMAGES):
        label = number % 4
        picture = torch.randn(1, 16, 16, generator=generator) + label
        buffer = io.BytesIO()
        torch.save(picture, buffer)
        key = f"mnist/{label}/{number:03}.pt"
        bucket.put_object(key, buffer.getvalue())
        pictures[key] = picture
    errand.did("put")

    prefix = f"oss://{errand.bucket}/mnist/"
    data_set = OssMapDataset.from_prefix(prefix, endpoint=endpoint, transform=transform, **files)
    equal(len(data_set), IMAGES)
    errand.did("list")

    torch.manual_seed(7)  # the first weights and the order in which each epoch shuffles, so that it learns each time
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 4)
    )
    criterion, optimizer = nn.CrossEntropyLoss(), optim.Adam(model.parameters(), lr=0.03)
    epochs = []
    for workers in (0, 2, 4):
        seen = []
        losses = []
        for batch, labels, keys in DataLoader(data_set, batch_size=8, num_workers=workers, shuffle=True):
            for picture, key in zip(batch, keys, strict=True):
                equal(torch.equal(picture, pictures[key]), True)
            seen += keys
            optimizer.zero_grad()
            loss = criterion(model(batch), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        equal(sorted(seen), sorted(pictures))
        epochs.append(sum(losses) / len(losses))
    equal(epochs[-1] < epochs[0], True)
    for key in pictures:
        errand.again(key)
    errand.did("get")
    errand.did("data set")

    checkpoint = OssCheckpoint(endpoint=endpoint, **files)
    with checkpoint.writer(f"oss://{errand.bucket}/epoch.ckpt") as writer:
        torch.save(model.state_dict(), writer)
    with checkpoint.reader(f"oss://{errand.bucket}/epoch.ckpt") as reader:
        restored = torch.load(reader)
    equal(all(torch.equal(restored[name], value) for name, value in model.state_dict().items()), True)
    equal(len(restored), 4)
    errand.did("checkpoint")


if __name__ == "__main__":  # the loader's processes may import this again
    main()
