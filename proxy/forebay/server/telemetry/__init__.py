"""Metrics for Prometheus, and the access log: one line of JSON a request, without secrets."""
