"""HTTP/1.1 to the origin: connections of our own for requests without a body, aiohttp for those with one."""
