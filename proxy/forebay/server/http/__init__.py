"""The listener: sockets, TLS, client connections and their limits, and the service that answers their requests."""
