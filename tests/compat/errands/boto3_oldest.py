"""The oldest boto3 that runs on Python 3.11, on the errand of the newest."""

import compat.errands.boto3  # noqa: F401 # importing it is running it
