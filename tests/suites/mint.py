"""The functional tests of MinIO's clients, for Go, Python and the command line: what its mint runs against servers.

Each is a program that prints a line of JSON for a case. A function may print several, one for each variant of its
arguments: their place among the function's lines tells them apart.
"""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from suites.commands import PASSED, installed, run, source_distribution
from suites.debian import PackageUnavailable, unpack
from suites.endpoints import ACCESS_KEY, SECRET_KEY, SuiteEndpoint
from suites.suite import Suite

_OUTCOMES: Final = {"PASS": PASSED, "NA": "skipped", "FAIL": "failed"}
_SECONDS: Final = 1800


def _environ(ground: SuiteEndpoint) -> Mapping[str, str]:
    return {
        **os.environ,
        "SERVER_ENDPOINT": f"127.0.0.1:{ground.port}",
        "ACCESS_KEY": ACCESS_KEY,
        "SECRET_KEY": SECRET_KEY,
        "ENABLE_HTTPS": "0",
        "ENABLE_KMS": "0",
        "MINT_MODE": "full",
        "RUN_ON_FAIL": "1",
    }


def parse_outcomes(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for line in lines:
        try:
            case = json.loads(line)
        except ValueError:
            continue
        if not isinstance(case, dict) or case.get("status") not in _OUTCOMES:
            continue
        name = str(case.get("name"))
        if name == "mc":
            name = str(case.get("function"))
        seen[name] += 1
        found[f"{name} {seen[name]}" if seen[name] > 1 else name] = _OUTCOMES[case["status"]]
    return found


def _run_program(command: list[str], ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
    out = directory / "out"
    with out.open("wb") as file:
        try:
            subprocess.run(
                command, cwd=directory, env=_environ(ground), stdout=file, stderr=file, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            file.write(b"took too long\n")
    return parse_outcomes(out.read_text(errors="replace").splitlines())


def _install_py() -> Path:
    return installed("minio-py", _PY, lambda home: source_distribution(home, _PY))


def _run_py(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
    tests = place / _PY.replace("==", "-") / "tests/functional"
    program = f"import sys; sys.path.insert(0, {str(tests)!r})\n{_GOES_ON}"
    return _run_program([str(place / "venv/bin/python"), "-c", program], ground, directory)


_PY: Final = "minio==7.2.20"
_GOES_ON: Final = """\
import tests
asked = tests._call_test
def ask(*words, **more):
    try:
        asked(*words, **more)
    except tests.TestFailed:
        pass
tests._call_test = ask
tests.main()
"""
"""It would end with the first case that fails."""

MINIO_PY: Final = Suite(
    name="minio-py",
    title="minio-py, functional tests",
    source=f"PyPI, source distribution of `{_PY}`, tests/functional/tests.py",
    origins=("swift", "moto"),
    install=_install_py,
    run=_run_py,
)


_GO: Final = "golang-github-minio-minio-go-v7=7.0.89-1"
_GO_NEEDS: Final = (
    "golang-1.24-go",
    "golang-1.24-src",
    *(
        f"golang-{name}-dev"
        for name in (
            "github-cespare-xxhash",
            "github-dustin-go-humanize",
            "github-go-ini-ini",
            "github-google-uuid",
            "github-klauspost-compress",
            "github-klauspost-cpuid",
            "github-minio-crc64nvme",
            "github-minio-md5-simd",
            "github-rs-xid",
            "golang-x-crypto",
            "golang-x-net",
            "golang-x-sys",
            "golang-x-term",
            "golang-x-text",
        )
    ),
)


def _install_go() -> Path:
    def install(home: Path) -> None:
        root, source = unpack(home, _GO_NEEDS, _GO)
        code = root / "usr/share/gocode"
        place = code / "src/github.com/minio/minio-go/v7"
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(source, place)
        go = root / "usr/lib/go-1.24"
        environ = {
            **os.environ,
            "GOROOT": str(go),
            "GOPATH": str(code),
            "GO111MODULE": "off",
            "GOCACHE": str(home / "cache"),
            "GOTOOLCHAIN": "local",
        }
        build = (str(go / "bin/go"), "build", "-o", str(home / "functional"), "functional_tests.go")
        run(*build, cwd=place, environ=environ)
        for done in (root, home / "cache", home / "apt"):
            shutil.rmtree(done)

    return installed("minio-go", _GO, install)


def _run_go(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
    return _run_program([str(place / "functional")], ground, directory)


_GO_KNOWN: Final = {
    "swift minio-go: testConcurrentCopyObjectWithVersioning": "chance: of ten copies at once Swift lists 11 to 17 "
    "versions in every second round, without Forebay as well (35 of 60 rounds, 2026-11-30)",
}

MINIO_GO: Final = Suite(
    name="minio-go",
    title="minio-go, functional tests",
    source=f"Debian 13, source package `{_GO}`, functional_tests.go",
    origins=("swift", "moto"),
    install=_install_go,
    run=_run_go,
    known=_GO_KNOWN,
)

_MC: Final = "minio-client=0.0~20250403-3"
_MC_SCRIPT: Final = "functional-tests.sh"
_EACH: Final = """
validate_dependencies
for name in $(declare -f run_test | grep -o 'test_[a-z0-9_]*'); do
  case "$name" in *sse*|test_watch_object|test_admin_users) continue ;; esac
  ( setup >/dev/null 2>&1; "$name" )
  ( teardown >/dev/null 2>&1 )
done
rm -rf "$MC_CONFIG_DIR"
"""
"""Instead of `main`, which ends with the first case that fails."""


def _install_mc() -> Path:
    def install(home: Path) -> None:
        if shutil.which("jq") is None:
            raise PackageUnavailable("needs jq")
        root, source = unpack(home, ("minio-client",), _MC)
        script = (source / _MC_SCRIPT).read_text()
        (home / _MC_SCRIPT).write_text(script.replace('\nmain "$@"\n', _EACH))
        (home / "mc").symlink_to(root / "usr/bin/minio-client")
        shutil.rmtree(home / "apt")

    return installed("mc", _MC + _EACH, install)


def _run_mc(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
    data = directory / "data"
    data.mkdir()
    (directory / "mc").symlink_to(place / "mc")
    return _run_program(["env", f"MINT_DATA_DIR={data}", "bash", str(place / _MC_SCRIPT)], ground, directory)


MC: Final = Suite(
    name="mc",
    title="MinIO Client (mc), functional tests",
    source=f"Debian 13, package and source package `{_MC}`, {_MC_SCRIPT}",
    origins=("swift", "moto"),
    install=_install_mc,
    run=_run_mc,
)

SUITES: Final = (MINIO_GO, MINIO_PY, MC)
