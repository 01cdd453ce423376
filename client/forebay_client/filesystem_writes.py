"""The writing half of the fsspec file system: objects, copies, buckets. The rest: forebay_client.filesystem."""

from pathlib import Path
from typing import Any, Final

from fsspec.spec import AbstractFileSystem

from forebay_client.client import Client
from forebay_client.client_errors import ConditionNotMet, InvalidRequest, ObjectNotFound, ServiceUnavailable
from forebay_client.filesystem_errors import os_errors
from forebay_client.object_copies import copy_object
from forebay_client.object_uploads import put_content
from forebay_client.objects import bytes_of
from forebay_client.transport.object_request import ObjectRequest

_PART_SIZE: Final = 64 << 20


class FileSystemWrites(AbstractFileSystem):
    """The writing half of ObjectFileSystem, which has the client and the paths."""

    client: Client

    @classmethod
    def split(cls, path: str) -> tuple[str, str]:
        """Bucket and key of a path; the key is empty for a bucket, both are for the root."""
        bucket, _, key = str(cls._strip_protocol(path)).partition("/")
        return bucket, key

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_options: Any) -> None:
        """Writes an object with one PUT. `mode` "create": raises FileExistsError where there is one."""
        bucket, key = self.split(path)
        content = bytes_of(value)
        with os_errors(path):
            if mode == "create":
                self._create(path, bucket, key, content)
            else:
                self.client.put(bucket, key, content)
        self.invalidate_cache(path)

    def _create(self, path: str, bucket: str, key: str, content: memoryview) -> None:
        if self.exists(path):
            raise FileExistsError(path)
        send = self.client.send_request
        try:
            put_content(send, bucket, key, content, len(content), {"if-none-match": "*"})
        except ConditionNotMet as error:
            raise FileExistsError(path) from error
        except (InvalidRequest, ServiceUnavailable) as error:
            if error.status != 501:
                raise
            put_content(send, bucket, key, content, len(content), {})  # an origin without conditions on writes

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, mode: str = "overwrite", **_options: Any) -> None:
        """Copies a local file to an object, a large one in parts, in parallel."""
        local = Path(lpath)
        if local.is_dir():
            return
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(rpath)
        bucket, key = self.split(rpath)
        if callback is not None:
            callback.set_size(local.stat().st_size)
        with os_errors(rpath):
            self.client.put_file(bucket, key, local, _PART_SIZE)
        if callback is not None:
            callback.relative_update(local.stat().st_size)
        self.invalidate_cache(rpath)

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        """Copies an object at the server. A directory has nothing to copy."""
        with os_errors(path1):
            try:
                copy_object(self.client.send_request, self.split(path1), self.split(path2), self.client.executor)
            except ObjectNotFound:
                if self.isdir(path1):
                    return
                raise
        self.invalidate_cache(path2)

    def rm_file(self, path: str) -> None:
        """Deletes an object."""
        bucket, key = self.split(path)
        with os_errors(path):
            self.client.delete(bucket, key)
        self.invalidate_cache(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Deletes objects: of a path, a list, a glob; with `recursive`, all below."""
        for each in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if self.split(each)[1]:
                self.rm_file(each)

    def touch(self, path: str, truncate: bool = True, **_options: Any) -> None:
        """Makes an empty object. An object can't be touched without being emptied: NotImplementedError."""
        if not truncate and self.exists(path):
            raise NotImplementedError("an object's time changes with its content only")
        self.pipe_file(path, b"")

    def mkdir(self, path: str, create_parents: bool = True, **_options: Any) -> None:
        """Makes a bucket. There are no other directories."""
        bucket, key = self.split(path)
        if key and not create_parents:
            return
        if not self.exists(bucket):
            with os_errors(path):
                self.client.send_request(ObjectRequest("PUT", bucket))
        elif not key:
            raise FileExistsError(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """The same; with `exist_ok`, also where it exists."""
        try:
            self.mkdir(path)
        except FileExistsError:
            if not exist_ok:
                raise

    def rmdir(self, path: str) -> None:
        """Deletes an empty bucket. Any other directory is gone with its last object."""
        bucket, key = self.split(path)
        if not key:
            with os_errors(path):
                self.client.send_request(ObjectRequest("DELETE", bucket))
