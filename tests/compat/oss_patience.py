"""Version 2 of the OSS SDK for Python reads an object in one attempt, and writes what it has read.

Runs in the SDK's own environment. Arguments: how long it waits for a byte, in seconds; nothing: as long as it does by
itself.
"""

import os
import sys

import alibabacloud_oss_v2 as oss


def main() -> None:
    environ, config = os.environ, oss.config.load_default()
    config.credentials_provider = oss.credentials.StaticCredentialsProvider(
        environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"]
    )
    config.region, config.endpoint, config.retry_max_attempts = "cn-hangzhou", environ["ERRAND_ENDPOINT"], 1
    if len(sys.argv) > 1:
        config.readwrite_timeout = float(sys.argv[1])
    answer = oss.Client(config).get_object(oss.GetObjectRequest(environ["ERRAND_BUCKET"], "a/object"))
    sys.stdout.write(answer.body.content.decode())


main()
