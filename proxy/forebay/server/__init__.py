"""One worker: its composition root, event loop and sockets (HTTP, the Unix socket, admin port, RPC), the fast lane, and
telemetry."""
