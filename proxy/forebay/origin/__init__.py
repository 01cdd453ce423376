"""The origin: signed requests to the far bucket, and what its answers mean."""
