"""One worker process: composition root, listener, admin port, telemetry."""
