"""The way of a request in named steps: gateway, authentication, reading, form uploads."""
