"""Objects as an fsspec file system: for pandas, pyarrow, dask, Hugging Face datasets, zarr, xarray, DuckDB.

    pandas.read_parquet("forebay://bucket/key")                                       by its entry point
    fsspec.register_implementation("s3", ObjectFileSystem, clobber=True)             for every s3:// of the process

Many objects, and many ranges (`cat`, `cat_ranges`), are read by batches (forebay_client.batch). It is synchronous: no
event loop runs in a thread of its own, so it survives a fork and works in every thread; what expects an asynchronous
one (zarr) wraps it. Listings are not cached unless `use_listings_cache=True`: what is written is seen at once.

There are no directories: a path is one while an object's key begins with it and a slash. `mkdir` of anything but a
bucket does nothing.

https://filesystem-spec.readthedocs.io/en/latest/api.html
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from forebay_client.client import Client
from forebay_client.client_errors import ObjectNotFound
from forebay_client.filesystem_errors import os_error, os_errors
from forebay_client.filesystem_file import ForebayFile
from forebay_client.filesystem_writes import FileSystemWrites
from forebay_client.objects import BatchKey, CommonPrefix, ObjectInfo
from forebay_client.transport.object_request import ObjectRequest

_COPIED_AT_ONCE: Final = 16 << 20
_Entry = dict[str, Any]


class ObjectFileSystem(FileSystemWrites):
    """Objects of S3 or OSS, through Forebay or without it.

    Args:
        endpoint: And the other arguments of forebay_client.Client. Those of s3fs are understood as well: `key`,
            `secret`, `token`, `endpoint_url`, `anon`, `client_kwargs` with `endpoint_url` and `region_name`.
        use_listings_cache: Whether listings are kept, until `invalidate_cache` or a write through this object.

    Errors are OSErrors: FileNotFoundError, PermissionError, FileExistsError, and OSError with ESTALE for an object that
    was replaced while it was read.
    """

    protocol = ("forebay", "s3", "s3a", "oss")
    root_marker = ""
    cachable = True

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        key: str | None = None,
        secret: str | None = None,
        token: str | None = None,
        endpoint_url: str | None = None,
        anon: bool = False,
        client_kwargs: Mapping[str, Any] | None = None,
        use_listings_cache: bool = False,
        **arguments: Any,
    ) -> None:
        """See the class. Raises ClientConfigurationError, TypeError for an unknown argument."""
        listings = {name: arguments.pop(name) for name in ("listings_expiry_time", "max_paths") if name in arguments}
        base = {name: arguments.pop(name) for name in ("asynchronous", "skip_instance_cache") if name in arguments}
        super().__init__(use_listings_cache=use_listings_cache, **listings, **base)
        theirs = client_kwargs or {}
        endpoint = endpoint or endpoint_url or theirs.get("endpoint_url")
        named = {
            "access_key": "" if anon else key,
            "secret_key": "" if anon else secret,
            "session_token": token,
            "region": theirs.get("region_name"),
        }
        self.client = Client(
            endpoint, **{**{name: each for name, each in named.items() if each is not None}, **arguments}
        )

    # Looking

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_options: Any) -> list[Any]:
        """The entries of a directory, or the one of a file. Raises FileNotFoundError."""
        path = self._strip_protocol(path)
        entries = None if refresh else self._ls_from_cache(path)
        if entries is None:
            entries = self._listed(path)
        return list(entries) if detail else sorted(entry["name"] for entry in entries)

    def _listed(self, path: str) -> list[_Entry]:
        bucket, key = self.split(path)
        if not bucket:
            return self._buckets()
        prefix = f"{key}/" if key else ""
        with os_errors(path):
            found = [self._entry(each) for each in self.client.list(bucket, prefix, delimiter="/")]
        entries = [entry for entry in found if entry["name"] != f"{bucket}/{prefix}"]
        if found or not key:
            self.dircache[path] = entries
            return entries
        with os_errors(path):
            return [self._entry(self.client.head(bucket, key))]

    def _buckets(self) -> list[_Entry]:
        with os_errors(""):
            response = self.client.send_request(ObjectRequest("GET", ""))
        from forebay.protocol.xml.xml_tree import read_tree  # noqa: PLC0415 # nobody lists buckets but by hand

        names = [
            each.text_at("Name")
            for buckets in read_tree(bytes(response.body), max_size=1 << 25, max_elements=100_000).all("Buckets")
            for each in buckets.all("Bucket")
        ]
        return [_directory(name) for name in names]

    def info(self, path: str, **_options: Any) -> _Entry:
        """The entry of a path: `name`, `size`, `type`, and of an object `ETag` and `LastModified`. Raises
        FileNotFoundError."""
        path = self._strip_protocol(path)
        bucket, key = self.split(path)
        if not bucket:
            return _directory("")
        if not key:
            with os_errors(path):
                next(iter(self.client.list_pages(bucket)), None)
            return _directory(bucket)
        for entry in self._ls_from_cache(self._parent(path)) or ():
            if entry["name"] == path:
                return dict(entry)
        with os_errors(path):
            try:
                return self._entry(self.client.head(bucket, key))
            except ObjectNotFound:
                for page in self.client.list_pages(bucket, f"{key}/", delimiter="/"):
                    if page:
                        return _directory(path)
                raise

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        """All objects below a path, by one listing without a delimiter. `prefix`: only those whose rest begins so."""
        path = self._strip_protocol(path)
        bucket, key = self.split(path)
        if not bucket or maxdepth is not None:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail)
        start = f"{key}/" if key else ""
        with os_errors(path):
            found = list(self.client.list(bucket, start + str(options.get("prefix", ""))))
        entries = {entry["name"]: entry for entry in map(self._entry, found) if not entry["name"].endswith("/")}
        if not found and key and self.isfile(path):
            entries[path] = self.info(path)
        if withdirs:
            for name in [*entries]:
                for parent in _parents(name, path):
                    entries.setdefault(parent, _directory(parent))
        names = sorted(entries)
        return {name: entries[name] for name in names} if detail else names

    def modified(self, path: str) -> datetime:
        """Returns the time of an object's last change."""
        modified: datetime | None = self.info(path).get("LastModified")
        if modified is None:
            raise IsADirectoryError(path)
        return modified

    def ukey(self, path: str) -> str:
        """The ETag of an object: another content has another one."""
        return str(self.info(path).get("ETag", ""))

    def checksum(self, path: str) -> str:
        """The same."""
        return self.ukey(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forgets the listings that show a path; None: all."""
        if path is None:
            self.dircache.clear()
            return
        path = self._strip_protocol(path)
        while path:
            self.dircache.pop(path, None)
            path = self._parent(path)
        self.dircache.pop("", None)

    # Reading

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_options: Any) -> bytes:
        """The bytes of an object. `start` and `end` as in a slice: negative ones count from its end."""
        bucket, key = self.split(path)
        with os_errors(path):
            start, end = self._absolute(path, start, end)
            return bytes(self._range(bucket, key, start, end))

    def _range(self, bucket: str, key: str, start: int, end: int | None) -> memoryview:
        if end is not None and end <= start:
            return memoryview(b"")
        if start == 0 and end is None:
            return self.client.get(bucket, key)
        return self.client.get_range(bucket, key, start, end)

    def _absolute(self, path: str, start: int | None, end: int | None) -> tuple[int, int | None]:
        """A range without negative numbers."""
        if (start is None or start >= 0) and (end is None or end >= 0):
            return start or 0, end
        size = int(self.info(path)["size"])
        first, stop, _ = slice(start, end).indices(size)
        return first, stop

    def cat(self, path: str | list[str], recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """The bytes of one object, or of many by path: those of a list, of a glob, or below a path. `on_error`:
        `raise`, or `return` the error in the stead of the bytes, or `omit` the path."""
        paths = self.expand_path(path, recursive=recursive, **options)
        if isinstance(path, str) and not recursive and paths == [self._strip_protocol(path)]:
            return self.cat_file(paths[0])
        files = [each for each in paths if not self.isdir(each)] if recursive else paths
        found = self._read_many(files, [BatchKey(self.split(each)[1]) for each in files])
        return dict(_with_errors(zip(files, found, strict=True), on_error))

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_options: Any,
    ) -> list[Any]:
        """The bytes of many ranges, by one batch for each bucket. `max_gap` is of no use: Forebay joins what it
        fetches."""
        if not isinstance(paths, list):
            raise TypeError("paths is a list")
        starts = starts if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = ends if isinstance(ends, Iterable) else [ends] * len(paths)
        keys, failed = list[BatchKey](), dict[int, OSError]()
        for path, start, end in zip(paths, starts, ends, strict=True):
            try:
                first, stop = self._absolute(path, start, end)
            except OSError as error:  # the size of one that is not there, for a negative number
                failed[len(keys)] = error
                first = stop = 0
            keys.append(BatchKey(self.split(path)[1], first, None if stop is None else max(first, stop)))
        found = self._read_many([self._strip_protocol(path) for path in paths], keys)
        found = [failed.get(position, content) for position, content in enumerate(found)]
        return [content for _, content in _with_errors(zip(paths, found, strict=True), on_error)]

    def _read_many(self, paths: Sequence[str], keys: Sequence[BatchKey]) -> list[bytes | OSError]:
        """The bytes of each path, or its error."""
        found: list[bytes | OSError] = [b""] * len(paths)
        by_bucket: dict[str, list[int]] = {}
        for position, path in enumerate(paths):
            by_bucket.setdefault(self.split(path)[0], []).append(position)
        for bucket, positions in by_bucket.items():
            for item in self.client.get_many(bucket, [keys[position] for position in positions], ordered=False):
                position = positions[item.index]
                path = paths[position]
                found[position] = os_error(item.error, path) if item.error is not None else bytes(item.content())
        return found

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **_options: Any) -> None:
        """Copies an object to a local path."""
        if outfile is None and self.isdir(rpath):
            Path(lpath).mkdir(parents=True, exist_ok=True)
            return
        bucket, key = self.split(rpath)
        with os_errors(rpath), self.client.open(bucket, key) as file:
            if callback is not None:
                callback.set_size(file.size)
            if outfile is None:
                Path(lpath).parent.mkdir(parents=True, exist_ok=True)
                with Path(lpath).open("wb") as own:
                    _copy(file, own, callback)
            else:
                _copy(file, outfile, callback)

    def sign(self, path: str, expiration: int = 100, **options: Any) -> str:
        """A URL by which anybody may read an object for `expiration` seconds; `method="PUT"`: may write it."""
        return self.client.presign(*self.split(path), method=str(options.get("method", "GET")), expires=expiration)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> ForebayFile:
        if mode == "xb" and self.exists(path):
            raise FileExistsError(path)
        return ForebayFile(self, path, mode, block_size=block_size, **options)

    @staticmethod
    def _entry(found: ObjectInfo | CommonPrefix) -> _Entry:
        if isinstance(found, CommonPrefix):
            return _directory(f"{found.bucket}/{found.prefix.rstrip('/')}")
        return {
            "name": f"{found.bucket}/{found.key}",
            "size": found.size,
            "type": "file",
            "ETag": found.etag,
            "LastModified": found.last_modified,
        }


def _directory(name: str) -> _Entry:
    return {"name": name, "size": 0, "type": "directory"}


def _parents(name: str, root: str) -> Iterator[str]:
    """The directories between a path and `root`, which it is below; `root` included."""
    while len(name) > len(root) and "/" in name:
        name = name.rpartition("/")[0]
        if len(name) >= len(root):
            yield name


def _with_errors(found: Iterable[tuple[str, bytes | OSError]], on_error: str) -> Iterator[tuple[str, bytes | OSError]]:
    for path, content in found:
        if isinstance(content, OSError):
            if on_error == "raise":
                raise content
            if on_error == "omit":
                continue
        yield path, content


def _copy(source: Any, target: Any, callback: Any) -> None:
    while piece := source.read(_COPIED_AT_ONCE):
        target.write(piece)
        if callback is not None:
            callback.relative_update(len(piece))
