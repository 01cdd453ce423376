"""TLS to the origin."""

import ssl


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """A context that verifies TLS: by the system's authorities, or by those in `ca_file` instead."""
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
