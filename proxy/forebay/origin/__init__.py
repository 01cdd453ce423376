"""The origin: signed requests to the far bucket, and the meaning of its answers."""
