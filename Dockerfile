# Forebay as a container: beside the compute, as a sidecar or one a node.
#
#   docker build -t forebay .
#   docker run --read-only --tmpfs /tmp -p 9000:9000 -v forebay-cache:/cache -v forebay-state:/state -e FOREBAY_ORIGIN__ENDPOINT=... forebay
#
# Settings come from /etc/forebay/forebay.toml, and from the environment over it (FOREBAY_ORIGIN__ENDPOINT=...); the file
# in the image has S3 listen on all addresses and the SSD tier in /cache. A file that is mounted in its place replaces it
# whole: FOREBAY_SERVER__LISTEN=0.0.0.0:9000, FOREBAY_SSD__PATH=/cache and FOREBAY_SSD__SIZE set both beside it. Secrets
# that the file names (secret_env), and AWS_* credentials, are passed with -e.
# The admin port stays inside the container (a pod's containers share it) until it is told to listen elsewhere:
# FOREBAY_SERVER__ADMIN=0.0.0.0:9001 with a token, see docs/configuration.md; then scrapers reach its metrics.
# Only /cache and /state are written to (and /tmp): the root file system may be read-only. /state holds the run record, by
# which a restart knows that it may trust /cache: two volumes, both kept. The process is uid 10001, so they must be
# writable for it (Kubernetes: fsGroup: 10001).
#
# EXTRAS=demo adds the embedded origin, for `docker run --entrypoint forebay -e FOREBAY_DEMO_DIR=/cache/demo ... demo`.

FROM python:3.11-slim AS build
ARG EXTRAS=proxy
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
COPY client client
RUN pip wheel --wheel-dir /wheels ".[${EXTRAS}]"
RUN python -m venv /opt/forebay \
 && /opt/forebay/bin/pip install --no-index --find-links /wheels "forebay[${EXTRAS}]" \
 && /opt/forebay/bin/pip uninstall --yes setuptools pip \
 && python -m compileall -q -f --invalidation-mode unchecked-hash /opt/forebay/lib
RUN printf '%s\n' \
      '[server]' 'listen = "0.0.0.0:9000"' 'admin = "127.0.0.1:9001"' '' \
      '[ssd]' 'path = "/cache"' 'size = "10GiB"' > /forebay.toml

FROM python:3.11-slim
# The image comes without the bytecode of the standard library (https://github.com/docker-library/python/issues/615), and
# nobody here may write any: each start would compile all that it imports, for half a second. Nothing in an image
# changes, so no start compares the sources' times, which a copy may have changed, either.
RUN python -m compileall -q --invalidation-mode unchecked-hash -x '/(test|tests|idlelib|lib2to3|turtledemo|tkinter)/' \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
RUN groupadd --gid 10001 forebay \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin forebay \
 && install -d -o forebay -g forebay -m 0700 /cache /state
COPY --from=build /opt/forebay /opt/forebay
COPY --from=build /forebay.toml /etc/forebay/forebay.toml
ENV PATH=/opt/forebay/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    FOREBAY_CONFIG=/etc/forebay/forebay.toml \
    STATE_DIRECTORY=/state
USER 10001:10001
VOLUME ["/cache", "/state"]
# 9000: S3. 9001: health, metrics, control.
EXPOSE 9000 9001
# http.client, since urllib would ask HTTP_PROXY. FOREBAY_ADMIN names the admin port where it was moved.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["python", "-I", "-c", "\
import http.client, os, sys;\
a = os.environ.get('FOREBAY_ADMIN', '127.0.0.1:9001').removeprefix('http://').rstrip('/');\
c = http.client.HTTPConnection(a, timeout=3);\
c.request('GET', '/healthz');\
sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["forebay", "serve"]
