"""The admin port: health, metrics, and control over a running Forebay. HTTP and JSON in front of a `Control`."""
