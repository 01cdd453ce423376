"""From a socket to the story and back: the fast lane, and the full lane on aiohttp's low-level server."""
