"""Connections of clients: accepting, TLS, aiohttp, bodies sent by the kernel."""
