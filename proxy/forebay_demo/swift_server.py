"""The embedded origin's process: Swift's account, container, object and proxy server on one eventlet hub.

    python -m forebay.workers.parent_watch forebay_demo.swift_server DIR SOCKET_FD

DIR is as forebay_demo.swift_layout wrote it; SOCKET_FD is a bound socket for the proxy server, the one that
speaks S3. It prints a line when all four accept connections. Swift's own daemons would be four processes with four
times the imports; here they share one, which starts in half a second and takes 70 MB. Each server gets what
swift.common.wsgi.run_server would give it; that function itself would replace the hub under the servers before it.

Nobody but the kernel ends this process: its lifeline, or a signal. Swift's files bear a SIGKILL.
"""

import os
import socket
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from forebay_demo.swift_layout import BACKENDS, DEVICE, SERVERS, configuration_of, ring_of

warnings.filterwarnings("ignore", message="(?s).*Eventlet is deprecated")  # Swift's business, not the user's

from swift.common import constraints, utils  # noqa: E402 - after the filter: importing eventlet warns
from swift.common import wsgi as swift_wsgi  # noqa: E402 - likewise
from swift.common.concurrency import greenio, hubs, listen, sleep, spawn, wsgi  # noqa: E402 - likewise
from swift.common.http_protocol import SwiftHttpProtocol  # noqa: E402 - likewise
from swift.common.ring import RingBuilder  # noqa: E402 - likewise

_BACKLOG = 1024
_IDLE_SECONDS = 60.0
_PARTITIONS_LOG2 = 6


def write_ring(path: Path, port: int) -> None:
    """A ring of one device, which holds everything."""
    builder = RingBuilder(_PARTITIONS_LOG2, 1, 0)
    builder.add_dev(
        {
            "id": 0,
            "region": 1,
            "zone": 1,
            "weight": 1.0,
            "device": DEVICE,
            "ip": "127.0.0.1",
            "port": port,
            "replication_ip": "127.0.0.1",
            "replication_port": port,
            "meta": "",
        }
    )
    builder.rebalance(seed=0)
    builder.get_ring().save(str(path))


def serve(directory: Path, front: socket.socket, ready: Callable[[], None]) -> None:
    """Runs the four servers until the process ends."""
    os.environ["TZ"] = "UTC+0"  # as Swift's own start does: its timestamps are UTC
    time.tzset()
    utils.monkey_patch()
    hubs.use_hub(utils.get_hub())
    utils.set_swift_dir(str(directory))
    utils.validate_configuration()

    sockets = {name: listen(("127.0.0.1", 0), backlog=_BACKLOG) for name in BACKENDS}
    for name, listener in sockets.items():
        write_ring(ring_of(directory, name), listener.getsockname()[1])
    front.listen(_BACKLOG)
    sockets["proxy"] = greenio.GreenSocket(front)

    # In this order: the proxy server must find the others' rings, and they must answer when it first asks.
    threads = []
    for name in SERVERS:
        sockets[name].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        app = swift_wsgi.loadapp(str(configuration_of(directory, name)), global_conf={"log_name": name})
        threads.append(
            spawn(
                wsgi.server,
                sockets[name],
                app,
                utils.NullLogger(),
                custom_pool=swift_wsgi.RestrictedGreenPool(size=1024),
                protocol=SwiftHttpProtocol,
                socket_timeout=_IDLE_SECONDS,
                # S3 clients look for "ETag", not for "Etag".
                capitalize_response_headers=False,
                url_length_limit=constraints.MAX_REQUEST_LINE,
            )
        )
    sleep(0)  # let each reach its accept
    ready()
    for thread in threads:
        thread.wait()


def main() -> None:
    """Runs the origin as a process: DIRECTORY and the number of the bound socket."""
    directory, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    front = socket.socket(fileno=descriptor)

    def ready() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    serve(directory, front, ready)


if __name__ == "__main__":
    main()
