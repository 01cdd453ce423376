"""The samples of the checks: 40 objects of different lengths."""

COUNT = 40
CONTENTS = {f"train/{number:02}.bin": bytes([number]) * (100 + number) for number in range(COUNT)}
PREFIX = "s3://bucket/train/"
URIS = [f"s3://bucket/{key}" for key in CONTENTS]
