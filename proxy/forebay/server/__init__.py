"""One worker: its composition root, the listener, the fast lane, the admin port, RPC, telemetry."""
