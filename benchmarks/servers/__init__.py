"""Servers that are measured: Forebay, nginx and Varnish, their configurations, and the comparison of them."""
