"""The requests and answers of the admin port, as dataclasses: one schema for HTTP and between workers."""
