"""The settings of `[server]`: addresses, processes, logs."""

from typing import Final

from forebay.settings.setting import HOUR, UNSET, Setting, secret_settings
from forebay.settings.value_types import (
    ADDRESS,
    BOOLEAN,
    CNAMES,
    DOMAINS,
    DURATION,
    FILE,
    INTEGER,
    LOG,
    MODE,
    WORD,
    choice,
    or_auto,
    or_off,
)

SERVER: Final[tuple[Setting, ...]] = (
    Setting("server.listen", ADDRESS, "127.0.0.1:9000", "The address that clients connect to."),
    Setting("server.tls_listen", ADDRESS, UNSET, "The address for TLS, in addition to `server.listen`."),
    Setting(
        "server.tls_certificate",
        FILE,
        UNSET,
        "The certificate for `server.tls_listen` and its chain, in PEM; reread when it changes, and on SIGHUP.",
    ),
    Setting(
        "server.tls_key", FILE, UNSET, "The certificate's private key, in PEM without a passphrase; reread with it."
    ),
    Setting(
        "server.socket",
        FILE,
        UNSET,
        "The path of a Unix socket for clients on this machine: HTTP, and reads whose bytes come in shared memory.",
    ),
    Setting(
        "server.socket_mode",
        MODE,
        "0660",
        "The permissions of the socket's file, which decide who may connect; reads are authorised as on TCP.",
    ),
    Setting("server.socket_group", WORD, UNSET, "The group of the socket's file, a name or a number."),
    Setting(
        "server.admin",
        or_off(ADDRESS),
        "127.0.0.1:9001",
        "The address of the admin port: metrics, health and control; off loopback it needs `server.admin_token`.",
    ),
    Setting(
        "server.workers",
        or_auto(INTEGER),
        1,
        "Worker processes; they divide the sizes of `[memory]` and `origin.concurrency` equally and "
        'share one SSD tier; "auto" (or 0): one for each core that Forebay may use, at most eight.',
        0,
        256,
    ),
    Setting(
        "server.domains",
        DOMAINS,
        (),
        "Domains whose subdomains are buckets (virtual-hosted style); path style always works.",
        live=True,
    ),
    Setting(
        "server.cnames",
        CNAMES,
        UNSET,
        "Hosts that each name one bucket, so that the whole path is the key; they precede `server.domains`.",
        live=True,
    ),
    *secret_settings("server.admin_token", "The bearer token of the admin port"),
    Setting(
        "server.cors",
        BOOLEAN,
        False,
        "Whether requests of other sites' web pages are answered by the CORS configuration of the bucket at the "
        "origin.",
        live=True,
    ),
    Setting(
        "server.drain_timeout",
        DURATION,
        "30s",
        "The time for open requests to finish after Forebay is told to stop.",
        0,
        HOUR,
    ),
    Setting(
        "server.shutdown_delay",
        DURATION,
        "0s",
        "The time for which Forebay still accepts requests after it is told to stop and /readyz reports that it is not "
        'ready; new writes go through, also under `write = "back"`.',
        0,
        HOUR,
    ),
    Setting(
        "server.state_dir",
        FILE,
        UNSET,
        "The directory of the run record, kept across restarts and on another volume than `ssd.path`; if not set, "
        "`$STATE_DIRECTORY`, else `$XDG_STATE_HOME/forebay`, else `$HOME/.local/state/forebay`.",
    ),
    Setting(
        "server.access_log",
        LOG,
        "stdout",
        "The destination of the access log, a line of JSON for each request; a file is appended to, and "
        "reopened on SIGHUP.",
    ),
    Setting(
        "server.log_level",
        choice("debug", "info", "warning", "error"),
        "info",
        "The least severe messages that go to standard error.",
        live=True,
    ),
)
