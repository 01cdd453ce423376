"""The deployment files of config/: they parse, their configuration is accepted, and their parts fit together."""

import configparser
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from forebay.core.units import parse_size
from forebay.settings import load_settings
from forebay.settings.model import Settings

CONFIG: Final = Path(__file__).parents[2] / "config"
MANIFESTS: Final = ("kubernetes-sidecar.yaml", "kubernetes-daemonset.yaml")
DOCKERFILE: Final = (CONFIG.parent / "Dockerfile").read_text()
SHARED_MEMORY: Final = (CONFIG.parent / "docs" / "shared-memory.md").read_text()


def documents(name: str) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in yaml.safe_load_all((CONFIG / name).read_text())}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_follow_the_schema_of_kubernetes(name: str) -> None:
    for document in documents(name).values():
        for version in ("1.29", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)


def test_the_pod_monitor_scrapes_the_daemons_pods() -> None:
    monitor = documents("kubernetes-podmonitor.yaml")["PodMonitor"]["spec"]
    daemon = documents("kubernetes-daemonset.yaml")["DaemonSet"]["spec"]["template"]
    assert monitor["selector"]["matchLabels"].items() <= daemon["metadata"]["labels"].items()
    ports = {port["name"] for port in daemon["spec"]["containers"][0]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= ports


def test_the_daemons_client_is_pointed_at_its_service() -> None:
    found = documents("kubernetes-daemonset.yaml")
    environment = {each["name"]: each.get("value") for each in found["Pod"]["spec"]["containers"][0]["env"]}
    service = found["Service"]
    endpoint = f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert environment["AWS_ENDPOINT_URL"] == environment["AWS_ENDPOINT_URL_S3"] == endpoint
    assert f'id = "{environment["AWS_ACCESS_KEY_ID"]}"' in found["ConfigMap"]["data"]["forebay.toml"]


def pod_of(name: str) -> dict[str, Any]:
    found = documents(name)
    workload = found.get("Job") or found["DaemonSet"]
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


def forebay_of(pod: dict[str, Any]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = [*pod.get("initContainers", []), *pod["containers"]]
    return next(each for each in containers if each["name"] == "forebay")


def settings_of(name: str) -> Settings:
    text = documents(name)["ConfigMap"]["data"]["forebay.toml"]
    loaded = load_settings(text, {}, {}, lambda path: path.replace("/", "-"))
    assert not loaded.warnings
    return loaded.settings


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_configuration_inside_is_accepted(name: str) -> None:
    settings_of(name)


@pytest.mark.parametrize("name", MANIFESTS)
def test_mounts_exist_and_the_cache_is_writable(name: str) -> None:
    pod, settings = pod_of(name), settings_of(name)
    container = forebay_of(pod)
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert {mount["name"] for mount in mounts.values()} <= volumes
    assert "/etc/forebay" in mounts, "where the image looks for forebay.toml"
    assert "FOREBAY_CONFIG=/etc/forebay/forebay.toml" in DOCKERFILE
    assert settings.ssd is not None
    tier = Path(settings.ssd.path)
    assert any(tier.is_relative_to(path) and not mount.get("readOnly") for path, mount in mounts.items())
    state = mounts["/state"]
    assert "STATE_DIRECTORY=/state" in DOCKERFILE
    assert not state.get("readOnly")
    assert state["name"] not in {mount["name"] for path, mount in mounts.items() if tier.is_relative_to(path)}
    assert str(container["securityContext"]["runAsUser"]) in DOCKERFILE


@pytest.mark.parametrize("name", MANIFESTS)
def test_requested_memory_is_enough(name: str) -> None:
    settings = settings_of(name)
    limit = int(forebay_of(pod_of(name))["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    assert settings.memory.size + settings.memory.buffers + settings.memory.ahead + (300 << 20) <= limit


@pytest.mark.parametrize("name", MANIFESTS)
def test_volumes_have_room_for_what_is_written(name: str) -> None:
    """A pod that uses more of an emptyDir than its sizeLimit is evicted."""
    pod, settings = pod_of(name), settings_of(name)
    paths = {mount["name"]: Path(mount["mountPath"]) for mount in forebay_of(pod)["volumeMounts"]}
    held_path = Path(settings.limits.held_path or "/tmp")  # the system's, in a container
    assert settings.ssd is not None
    needed = {
        Path("/state"): settings.limits.recordings + (1 << 30),  # a plan has 1 GiB at most
        held_path: 2 * settings.limits.held,  # as much again for the starts of uploads
        Path(settings.ssd.path): settings.ssd.size,
    }
    for volume in pod["volumes"]:
        if "emptyDir" in volume:
            held = sum(size for path, size in needed.items() if path.is_relative_to(paths[volume["name"]]))
            assert parse_size(volume["emptyDir"]["sizeLimit"] + "B") >= held, volume["name"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_there_is_time_to_drain(name: str) -> None:
    grace = pod_of(name).get("terminationGracePeriodSeconds", 30)
    server = settings_of(name).server
    assert server.shutdown_delay + server.drain_timeout < grace


def test_the_secrets_of_the_daemon_are_mounted_where_they_are_read() -> None:
    text = documents("kubernetes-daemonset.yaml")["ConfigMap"]["data"]["forebay.toml"]
    read: list[str] = []

    def note(path: str) -> str:
        read.append(path)
        return "secret"

    load_settings(text, {}, {}, note)
    mounts = [mount["mountPath"] for mount in forebay_of(pod_of("kubernetes-daemonset.yaml"))["volumeMounts"]]
    assert read
    for path in read:
        assert any(Path(path).is_relative_to(mount) for mount in mounts)


def test_the_daemons_ports_are_those_it_listens_on() -> None:
    settings, found = settings_of("kubernetes-daemonset.yaml"), documents("kubernetes-daemonset.yaml")
    ports = {port["name"]: port["containerPort"] for port in forebay_of(pod_of("kubernetes-daemonset.yaml"))["ports"]}
    assert settings.server.admin is not None
    assert ports == {"s3": settings.server.listen.port, "admin": settings.server.admin.port}
    assert (
        found["Service"]["spec"]["selector"].items()
        <= found["DaemonSet"]["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_sidecar_is_reached_by_nobody_else_and_pointed_at() -> None:
    settings = settings_of("kubernetes-sidecar.yaml")
    assert settings.auth.mode == "open"
    assert settings.server.listen.is_loopback
    training = next(each for each in pod_of("kubernetes-sidecar.yaml")["containers"] if each["name"] == "training")
    environment = {each["name"]: each.get("value") for each in training["env"]}
    for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):  # not every client reads the second
        assert environment[variable] == f"http://{settings.server.listen}"


def test_the_unit_starts_forebay_and_gives_it_time_to_drain() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd heeds case
    unit.read_string((CONFIG / "forebay.service").read_text())
    service = unit["Service"]
    assert service["ExecStart"].split()[1:3] == ["serve", "--config"]
    assert service["ExecStart"].split()[3] == service["ExecStartPre"].split()[2]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["StateDirectory"], "where the run record is kept"
    assert f"/run/{service['RuntimeDirectory']}/forebay.sock" in SHARED_MEMORY, "where the socket is made"
    assert service["LogsDirectory"], "where an access log may be written"
    default = load_settings('[origin]\nendpoint = "http://a"\n[auth]\nmode = "open"\n', {}, {}, str).settings
    assert int(service["TimeoutStopSec"].removesuffix("s")) > default.server.drain_timeout


def test_the_health_check_takes_the_address_as_commands_do() -> None:
    """FOREBAY_ADMIN may be a URL. Nothing listens here, so the connection is refused."""
    check = re.search(r"^HEALTHCHECK .* CMD (\[.*?\])$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    assert check is not None
    [_python, *arguments] = json.loads(check[1])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command, environment = [sys.executable, "-S", *arguments], {"FOREBAY_ADMIN": f"http://127.0.0.1:{port}/"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.stderr.rstrip().endswith("ConnectionRefusedError: [Errno 111] Connection refused")


def test_image_contains_compiled_modules() -> None:
    assert "PYTHONDONTWRITEBYTECODE=1" in DOCKERFILE, "else there would be bytecode after the first start"
    build, final = DOCKERFILE.split("FROM python:3.11-slim\n")
    assert re.search(r"python -m compileall .*/opt/forebay/lib", build)
    assert re.search(r'python -m compileall .*\\\n.*get_path\("stdlib"\)', final)
