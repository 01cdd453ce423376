"""The full lane: from a socket to the story and back, on aiohttp's low-level server."""
