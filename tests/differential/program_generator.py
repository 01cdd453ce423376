"""Random programs: writes in every form, reads with ranges and conditions, uploads, batches, listings, odd requests."""

from collections.abc import Callable
from random import Random
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape

from differential.program import FORMS, FRAMED, VERSIONING, Batch, BatchEntry, Call, Content, Pairs, Pause, Step
from harness.fake.checksums import ALGORITHMS, digest_of

NAMES: Final = (
    "a",
    "a b",
    "ä+b",
    "p%2Fq",
    "dir/",
    "x//y",
    "q?r&s=t",
    "*~'()!",
    "\U0001f600",
    "e\u0301",
    "new\nline",
    "../up",
    "d/./e",
    "<&>",
    "100%",
    "\u00e9",
    "./x",
    "/lead",
    " blanks ",
    "a+b",
)
_FOLDERS: Final = ("minute/", "always/", "frozen/", "small/", "warm/", "passed/")
"""Of the bucket `open`, each under a rule of its own."""
_SIZES: Final = (0, 0, 1, 7, 100, 1000, 65_535, 65_536, 65_537, 200_000)
BUCKETS: Final = ("open", "open", "open", "listed", "back", "kept")
PACKED: Final = "packed"
"""A bucket whose keys under MEMBERS are objects of one origin, and members of a pack at the other."""
MEMBERS: Final = "train/"
_DATES: Final = ("Wed, 18 Nov 1998 10:00:00 GMT", "Wed, 18 Nov 2037 10:00:00 GMT", "whenever", "")
_TYPES: Final = ("text/plain", "text/html; charset=utf-8", "application/x-ä", "", "x")
_METADATA: Final = (
    ("x-amz-meta-colour", "red"),
    ("x-amz-meta-colour", ""),
    ("X-Amz-Meta-MiXed", "Case"),
    ("x-amz-meta-spaces", "two  of   them"),
    ("x-amz-meta-long", "v" * 1500),
    ("x-amz-meta-a_b.c", '1,2;3="4"'),
    ("x-amz-meta-utf", "größe"),
    ("x-amz-meta-word", "=?UTF-8?B?w6Q=?="),
)
_REFUSED: Final = ("0", "10001", "x", "-1", "")
_LOCKS: Final = (
    ("x-amz-object-lock-mode", "GOVERNANCE"),
    ("x-amz-object-lock-retain-until-date", "2037-11-18T10:00:00.000Z"),
    ("x-amz-object-lock-legal-hold", "ON"),
)
_ATTRIBUTES: Final = ("ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize")


class ProgramGenerator:
    def __init__(self, seed: int, length: int, buckets: tuple[str, ...] = BUCKETS) -> None:
        self._random, self._length, self._buckets = Random(seed), length, buckets
        names = self._random.sample(NAMES, 3)
        folders = self._random.sample(_FOLDERS, 2)
        self._keys = {
            "open": [folder + name for folder in folders for name in names[:2]] + names[2:3],
            **dict.fromkeys(("listed", "back", "kept"), names),
            PACKED: [MEMBERS + name for name in (*names, "loose")],
        }
        self._steps: list[Step] = []
        self._uploads: list[Call] = []
        self._parts: dict[int, list[tuple[int, int]]] = {}
        self._sums: dict[int, str] = {}
        """The checksum of a part, by its call."""
        self._pages: list[Call] = []
        self._writes: dict[str, list[int]] = {}

    def program(self) -> list[Step]:
        if "kept" in self._buckets:
            self._add("PUT", "kept", None, (("versioning", ""),), body=VERSIONING)
        for bucket in dict.fromkeys(self._buckets):
            for key in self._random.sample(self._keys[bucket], 2 if bucket != PACKED else 0):
                self._put_to(bucket, key)
        while len(self._steps) < self._length:
            kinds: tuple[tuple[Callable[[], None], int], ...] = (
                (self._put, 20),
                (self._post, 3),
                (self._attributes, 3),
                (self._read, 40),
                (self._copy, 6),
                (self._delete, 4),
                (self._upload, 10),
                (self._batch_delete, 4),
                (self._listing, 10),
                (self._subresource, 5),
                (self._odd, 4),
                (self._batch, 3),
                (self._pause, 2),
            )
            self._random.choices([kind for kind, _ in kinds], [often for _, often in kinds])[0]()
        if PACKED in self._buckets:
            self._add("GET", PACKED, None, (("list-type", "2"), ("encoding-type", "url"), ("prefix", MEMBERS)))
            for name in NAMES:
                self._add("GET", PACKED, MEMBERS + name)
        return self._steps

    # ------------------------------------------------------------------------------------------------ small choices

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _bucket(self) -> str:
        return self._random.choice(self._buckets)

    def _object(self) -> tuple[str, str]:
        bucket = self._bucket()
        return bucket, self._random.choice(self._keys[bucket])

    def _content(self) -> Content:
        return Content(self._random.randrange(5), self._random.choice(_SIZES))

    def _add(
        self,
        method: str,
        bucket: str,
        key: str | None = None,
        query: Pairs = (),
        headers: Pairs = (),
        body: Content | str = "",
        *,
        form: str | None = None,
        digest: str = "",
        trailer: str = "crc32",
    ) -> Call:
        twice = method in {"GET", "HEAD"} and self._maybe(0.5)
        if form is None:
            form = self._random.choices(("plain", "presigned", "v2", "v2-query"), (16, 2, 1, 1))[0]
        is_virtual = form in FORMS and form != "presigned" and bucket != "missing" and self._maybe(0.08)
        call = Call(
            len(self._steps), method, bucket, key, query, headers, body, form, twice, digest, trailer, is_virtual
        )
        self._steps.append(call)
        return call

    def _pause(self) -> None:
        self._steps.append(Pause(len(self._steps), self._random.choice((1, 1, 30, 61))))

    # ------------------------------------------------------------------------------------------------------- writes

    def _described(self) -> Pairs:
        """Headers that become the object's."""
        pairs: dict[str, tuple[str, str]] = {}
        for pair, often in (
            (("Content-Type", self._random.choice(_TYPES)), 0.5),
            (("Cache-Control", "max-age=60, private"), 0.1),
            (("Content-Disposition", 'attachment; filename="a b.txt"'), 0.1),
            (("Content-Language", "de"), 0.1),
            (("Content-Encoding", self._random.choice(("gzip", "zstd, br"))), 0.1),
            (("Expires", "Wed, 18 Nov 2037 10:00:00 GMT"), 0.1),
            (("x-amz-storage-class", self._random.choice(("STANDARD", "STANDARD_IA"))), 0.05),
            (("x-amz-tagging", "a=b&c=d%20e"), 0.1),
            (self._random.choice(_METADATA), 0.4),
            (self._random.choice(_METADATA), 0.2),
            (self._random.choice(_LOCKS), 0.03),
        ):
            if self._maybe(often):
                pairs[pair[0].lower()] = pair
        return tuple(pairs.values())

    def _etag(self, name: str) -> str:
        right = f"{{etag:{name}}}"
        return self._random.choice((f'"{right}"', right, '"0000"', "*", f'"0000", "{right}"', f'W/"{right}"'))

    def _write_condition(self, name: str) -> Pairs:
        if not self._maybe(0.12):
            return ()
        return (self._random.choice((("If-None-Match", "*"), ("If-Match", f'"{{etag:{name}}}"'), ("If-Match", '"0"'))),)

    def _put(self) -> None:
        self._put_to(*self._object())

    def _put_to(self, bucket: str, key: str) -> None:
        content, form, digest, trailer = self._content(), self._random.choice(FORMS), "", "crc32"
        headers = (*self._described(), *self._write_condition(f"{bucket}/{key}"))
        if form in FRAMED:
            headers = tuple(pair for pair in headers if pair[0] != "Content-Encoding")
            trailer = self._random.choice((*sorted(ALGORITHMS), "wrong"))
        elif self._maybe(0.15):
            digest = self._random.choice(("right", "right", "wrong"))
        elif self._maybe(0.2):
            algorithm = self._random.choice(sorted(ALGORITHMS))
            body = content.bytes() if self._maybe(0.8) else b"other"
            headers += ((f"x-amz-checksum-{algorithm}", digest_of(algorithm, body)),)
        if form != "presigned" and self._maybe(0.1):
            headers += (("Expect", "100-continue"),)
        call = self._add("PUT", bucket, key, (), headers, content, form=form, digest=digest, trailer=trailer)
        self._writes.setdefault(call.name(), []).append(call.number)
        if self._maybe(0.4):
            self._read_of(bucket, key)
        if self._maybe(0.1):
            self._add("GET", bucket, None, (("list-type", "2"), ("encoding-type", "url"), ("prefix", key[:4])))

    def _post(self) -> None:
        bucket, key = self._object()
        fields = (("key", key), *(each for each in self._described() if each[1] and each[0] != "Content-Language"))
        if self._maybe(0.5):
            fields += (("success_action_status", self._random.choice(("200", "201", "204", "x"))),)
        if self._maybe(0.2):
            fields += (("x-amz-checksum-sha256", digest_of("sha256", b"other")),)
        call = self._add("POST", bucket, None, (), fields, self._content(), form="posted")
        self._writes.setdefault(f"{bucket}/{key}", []).append(call.number)
        self._read_of(bucket, key)

    def _copy(self) -> None:
        (bucket, key), (source_bucket, source) = self._object(), self._object()
        headers: Pairs = (("x-amz-copy-source", self._source(source_bucket, source)),)
        name = f"{source_bucket}/{source}"
        if self._maybe(0.4):
            headers += (("x-amz-metadata-directive", self._random.choice(("COPY", "REPLACE", "REPLACE"))),)
            headers += self._described()
        if self._maybe(0.2):
            headers += (("x-amz-tagging-directive", self._random.choice(("COPY", "REPLACE"))),)
        if self._maybe(0.1):
            headers += (("x-amz-checksum-algorithm", self._random.choice(("CRC32", "SHA256", "CRC64NVME"))),)
        for condition, value in (
            ("if-match", self._etag(name)),
            ("if-none-match", self._etag(name)),
            ("if-modified-since", self._date(name)),
            ("if-unmodified-since", self._date(name)),
        ):
            if self._maybe(0.12):
                headers += ((f"x-amz-copy-source-{condition}", value),)
        headers += self._write_condition(f"{bucket}/{key}")
        call = self._add("PUT", bucket, key, (), headers, form="plain")
        self._writes.setdefault(call.name(), []).append(call.number)
        self._read_of(bucket, key)

    def _source(self, bucket: str, key: str) -> str:
        written = self._writes.get(f"{bucket}/{key}", ())
        version = f"?versionId={{version:{self._random.choice(written)}}}" if written and bucket == "kept" else ""
        slash = self._random.choice(("", "/"))
        return f"{slash}{{bucket:{bucket}}}/{quote(key)}{version if self._maybe(0.3) else ''}"

    def _delete(self) -> None:
        bucket, key = self._object()
        condition = (("If-Match", self._etag(f"{bucket}/{key}")),) if self._maybe(0.15) else ()
        self._add("DELETE", bucket, key, self._version(bucket, key, 0.3), condition, form="plain")
        self._read_of(bucket, key)

    def _batch_delete(self) -> None:
        bucket = self._bucket()
        keys = self._random.sample(self._keys[bucket], self._random.randint(1, 3))
        keys += ["unknown"] * self._maybe(0.4) + keys[:1] * self._maybe(0.2)
        listed = ""
        for key in keys:
            version = "".join(f"<VersionId>{each}</VersionId>" for _, each in self._version(bucket, key, 0.3))
            listed += f"<Object><Key>{escape(key)}</Key>{version}</Object>"
        quiet = self._random.choice(("", "", "<Quiet>true</Quiet>", "<Quiet>false</Quiet>"))
        body = f"<Delete>{quiet}{listed}</Delete>"
        if self._maybe(0.1):
            body = self._random.choice(("<Delete></Delete>", "<Delete>", "", "<Other/>", body.replace("Key", "Kee")))
        digest = self._random.choice(("right", "right", "right", "right", "wrong"))
        self._add("POST", bucket, None, (("delete", ""),), (), body, form="plain", digest=digest)
        for key in keys[:2]:
            self._read_of(bucket, key)

    # ------------------------------------------------------------------------------------------------------ uploads

    def _upload(self) -> None:
        if not self._uploads or self._maybe(0.25):
            bucket, key = self._object()
            if "back" in self._buckets and self._maybe(0.3):
                bucket, key = "back", self._random.choice(self._keys["back"])
            described = (*self._described(), *self._checksums_of_upload())
            self._uploads.append(self._add("POST", bucket, key, (("uploads", ""),), described, form="plain"))
            for number in self._random.sample((1, 2, 3, 7), self._random.choice((0, 1, 1, 2, 3))):
                self._part(self._uploads[-1], number)
            if self._maybe(0.4):
                self._complete(self._uploads[-1])
                return
            if not self._maybe(0.6):
                return
        upload = self._random.choice(self._uploads)
        self._random.choices(
            (self._part, self._part_copy, self._parts_listing, self._complete, self._abort), (3, 1, 2, 4, 1)
        )[0](upload)

    def _checksums_of_upload(self) -> Pairs:
        if not self._maybe(0.6):
            return ()
        named = self._random.choice(("CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"))
        pairs: Pairs = (("x-amz-checksum-algorithm", named),)
        if named.startswith("CRC") and self._maybe(0.3):
            pairs += (("x-amz-checksum-type", "FULL_OBJECT"),)
        return pairs

    def _algorithm(self, upload: Call) -> str:
        return dict(upload.headers).get("x-amz-checksum-algorithm", "").lower()

    def _upload_query(self, upload: Call, *pairs: tuple[str, str]) -> Pairs:
        name = f"{{upload:{upload.number}}}" if not self._maybe(0.03) else "unknown"
        return (*pairs, ("uploadId", name))

    def _part(self, upload: Call, number: int | None = None) -> None:
        if number is None:
            number = self._random.choice((1, 2, 3, 4, 10_000))
        content = Content(self._random.randrange(5), self._random.choice((1500, 70_000, 10, 0)))
        shown = str(number) if not self._maybe(0.04) else self._random.choice(_REFUSED)
        form = self._random.choice(("plain", "plain", "unsigned", *FRAMED))
        query = self._upload_query(upload, ("partNumber", shown))
        headers: Pairs = ()
        if (algorithm := self._algorithm(upload)) and form in {"plain", "unsigned"} and self._maybe(0.95):
            headers = ((f"x-amz-checksum-{algorithm}", digest_of(algorithm, content.bytes())),)
        call = self._add(
            "PUT", upload.bucket, upload.key, query, headers, content, form=form, trailer=algorithm or "crc32"
        )
        self._sums[call.number] = digest_of(algorithm, content.bytes()) if algorithm else ""
        if shown == str(number):
            self._parts.setdefault(upload.number, []).append((number, call.number))

    def _part_copy(self, upload: Call) -> None:
        bucket, key = self._object()
        headers: Pairs = (("x-amz-copy-source", self._source(bucket, key)),)
        if self._maybe(0.5):
            span = self._random.choice(("bytes=0-9", "bytes=0-999", "bytes=5-", "bytes=10-100000000"))
            headers += (("x-amz-copy-source-range", span),)
        number = self._random.choice((1, 2, 3))
        query = self._upload_query(upload, ("partNumber", str(number)))
        call = self._add("PUT", upload.bucket, upload.key, query, headers, form="plain")
        self._parts.setdefault(upload.number, []).append((number, call.number))

    def _parts_listing(self, upload: Call) -> None:
        query = self._upload_query(upload)
        if self._maybe(0.6):
            query += (("max-parts", self._random.choice(("1", "1", "2", "1000", "1001", "x"))),)
        if self._maybe(0.4):
            query += (("part-number-marker", self._random.choice(("0", "1", "1", "3", "10000", "x", "-1"))),)
        self._add("GET", upload.bucket, upload.key, query)

    def _complete(self, upload: Call) -> None:
        sent = dict(self._parts.get(upload.number, ()))
        if upload.bucket == "back":  # a journal demands S3's 5 MiB of all parts but the last, the fake here 1,000 bytes
            sent = dict([*sent.items()][:1])
        listed = [(number, f'"{{part:{call}}}"') for number, call in sorted(sent.items())]
        change = self._random.randrange(16)
        if change == 0 and listed:
            listed[-1] = (listed[-1][0], '"00000000000000000000000000000000"')
        elif change == 1:
            listed.reverse()
        elif change == 2:
            listed.append((9_999, '"00000000000000000000000000000000"'))
        elif change == 3:
            listed = listed[:1]
        algorithm, right = self._algorithm(upload), self._maybe(0.75)
        body = ""
        for number, etag in listed:
            checksum = self._sums.get(sent.get(number, -1), "") if right else digest_of(algorithm or "crc32", b"other")
            element = f"Checksum{algorithm.upper()}"
            named = f"<{element}>{checksum}</{element}>" if algorithm and checksum else ""
            body += f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{named}</Part>"
        body = f"<CompleteMultipartUpload>{body}</CompleteMultipartUpload>"
        if self._maybe(0.04):
            body = self._random.choice(("<CompleteMultipartUpload>", "<Other/>"))
        headers = self._write_condition(upload.name())
        if self._maybe(0.05):
            headers += (("x-amz-checksum-crc32", digest_of("crc32", b"other")),)
        call = self._add("POST", upload.bucket, upload.key, self._upload_query(upload), headers, body, form="plain")
        self._writes.setdefault(upload.name(), []).append(call.number)
        assert upload.key is not None
        self._read_of(upload.bucket, upload.key)

    def _abort(self, upload: Call) -> None:
        self._add("DELETE", upload.bucket, upload.key, self._upload_query(upload), form="plain")

    # -------------------------------------------------------------------------------------------------------- reads

    def _read(self) -> None:
        self._read_of(*self._object())

    def _date(self, name: str) -> str:
        return self._random.choice((f"{{modified:{name}}}", f"{{modified:{name}}}", *_DATES))

    def _version(self, bucket: str, key: str, chance: float) -> Pairs:
        written = self._writes.get(f"{bucket}/{key}", ())
        if bucket != "kept" or not self._maybe(chance):
            return ()
        names = [f"{{version:{number}}}" for number in written] or ["unknown"]
        return (("versionId", self._random.choice((*names, *names, *names, "unknown"))),)

    def _span(self) -> str:
        first = self._random.choice((0, 0, 1, 5, 500, 65_535, 65_536, 150_000))
        length = self._random.choice((0, 3, 90, 1200))
        last = first + length
        if self._maybe(0.6):  # those that lie in most objects
            near = self._random.choice((0, 0, 1, 5, 50))
            return self._random.choice((f"bytes={near}-{near + length}", f"bytes={near}-", f"bytes=-{length + 2}"))
        spans = (
            f"bytes={first}-{last}",
            f"bytes={first}-{last}",
            f"bytes={first}-",
            f"bytes=-{length}",
            f"bytes={first}-{first}",
            "bytes=0-",
            "bytes=-0",
            "bytes=-1",
            f"bytes={first}-99999999999999999999",
            f"bytes={last}-{first}",
            "bytes=0-1,3-4",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "Bytes=0-4",
            "items=0-4",
            "bytes = 0-4",
            "bytes=0-4;x",
            "0-4",
        )
        return self._random.choice(spans)

    def _read_of(self, bucket: str, key: str) -> None:
        name, method = f"{bucket}/{key}", self._random.choice(("GET", "GET", "HEAD"))
        query, headers = self._version(bucket, key, 0.4), []
        for pair, often in (
            (("Range", self._span()), 0.4),
            (("If-Match", self._etag(name)), 0.12),
            (("If-None-Match", self._etag(name)), 0.12),
            (("If-Modified-Since", self._date(name)), 0.08),
            (("If-Unmodified-Since", self._date(name)), 0.08),
            (("If-Range", self._random.choice((f'"{{etag:{name}}}"', '"0"', self._date(name)))), 0.08),
            (("x-amz-checksum-mode", self._random.choice(("ENABLED", "enabled"))), 0.15),
            (("Cache-Control", "no-cache"), 0.04),
        ):
            if self._maybe(often):
                headers.append(pair)
        for parameter, value, often in (
            ("partNumber", self._random.choice(("1", "1", "2", "3", "9", *_REFUSED)), 0.06),
            ("response-content-type", self._random.choice(("text/html", "a b")), 0.06),
            ("response-content-disposition", 'attachment; filename="x"', 0.04),
            ("response-cache-control", "no-store", 0.04),
            ("response-expires", "Wed, 18 Nov 2037 10:00:00 GMT", 0.03),
            ("response-content-language", "fr", 0.03),
            ("response-content-encoding", "br", 0.03),
            ("x-id", "GetObject" if method == "GET" else "HeadObject", 0.1),
        ):
            if self._maybe(often):
                query += ((parameter, value),)
        self._add(method, bucket, key, query, tuple(headers))

    def _batch(self) -> None:
        bucket, random = self._bucket(), self._random
        keys = random.choices([*self._keys[bucket], "unknown"], k=random.choice((1, 3, 10, 40)))
        if bucket == PACKED:
            keys += random.choices([MEMBERS + name for name in NAMES], k=len(keys))
        starts, lengths = (0, 0, 0, 1, 6, 99, 65_536, 200_000), (None, None, 1, 1000, 70_000)
        entries = []
        for key in keys:
            start, length = random.choice(starts), random.choice(lengths)
            entries.append(BatchEntry(key, start, None if length is None else start + length))
        for _ in range(random.choice((1, 2))):
            self._steps.append(Batch(len(self._steps), bucket, tuple(entries), random.random() < 0.3))

    # ----------------------------------------------------------------------------------------------------- the rest

    def _listing(self) -> None:
        bucket, query = self._random.choice((self._bucket(), "listed")), []
        if bucket not in self._buckets:
            bucket = self._bucket()
        somewhere = self._random.choice(self._keys[bucket])
        least, often_prefixed = (len(MEMBERS), 1) if bucket == PACKED else (0, 0.4)
        version, earlier = self._random.choice(("1", "2", "2")), [each for each in self._pages if each.bucket == bucket]
        for parameter, value, often in (
            ("prefix", somewhere[: self._random.randint(least, len(somewhere))], often_prefixed),
            ("delimiter", self._random.choice(("/", "/", "/", "a", "//", "")), 0.4),
            ("encoding-type", self._random.choice(("url", "url", "url", "other" if bucket != PACKED else "url")), 0.5),
            ("max-keys", self._random.choice(("0", "1", "1", "2", "3", "1000", "2000", "x", "-1")), 0.5),
            ("marker" if version == "1" else "start-after", somewhere, 0.2),
            ("fetch-owner", "true", 0.15 * (version == "2")),
        ):
            if self._maybe(often):
                query.append((parameter, value))
        if version == "2":
            query.append(("list-type", "2"))
            if earlier and self._maybe(0.6):
                page = self._random.choice(earlier)
                query = [*page.query, ("continuation-token", f"{{token:{page.number}}}")]
        elif self._maybe(0.5):
            self._marked_listing(bucket, somewhere, [each for each in query if each[0] in {"prefix", "encoding-type"}])
            return
        call = self._add("GET", bucket, None, tuple(query))
        if ("list-type", "2") in query and not any(name == "continuation-token" for name, _ in query):
            self._pages.append(call)

    def _marked_listing(self, bucket: str, somewhere: str, query: list[tuple[str, str]]) -> None:
        """Of versions or uploads: a page, often a small one, and those behind it."""
        kind, most, marker = self._random.choice(
            (("versions", "max-keys", "version-id-marker"), ("uploads", "max-uploads", "upload-id-marker"))
        )
        if bucket == PACKED:  # members are no versions
            kind, most, marker = "uploads", "max-uploads", "upload-id-marker"
        query = [each for each in query if each != ("encoding-type", "other")]  # which S3 refuses, and the fake takes
        query += [("delimiter", "/")] * self._maybe(0.3)
        query += [(most, self._random.choice(("1", "1", "1", "2", "1000", "0", "x")))] * self._maybe(0.7)
        first = [("key-marker", somewhere)] * self._maybe(0.2)
        page = self._add("GET", bucket, None, ((kind, ""), *query, *first))
        while self._maybe(0.6):
            behind = [("key-marker", f"{{key-marker:{page.number}}}")]
            behind += [(marker, f"{{id-marker:{page.number}}}")] * self._maybe(0.9)
            page = self._add("GET", bucket, None, ((kind, ""), *query, *behind))

    def _attributes(self) -> None:
        bucket, key = self._object()
        wanted = ",".join(self._random.sample(_ATTRIBUTES, self._random.randint(1, len(_ATTRIBUTES))))
        headers: Pairs = (("x-amz-object-attributes", wanted if self._maybe(0.95) else "Colour"),)
        headers += (("x-amz-max-parts", "1"),) * self._maybe(0.3)
        headers += (("x-amz-part-number-marker", "1"),) * self._maybe(0.2)
        self._add("GET", bucket, key, (("attributes", ""), *self._version(bucket, key, 0.3)), headers)

    def _subresource(self) -> None:
        bucket, key = self._object()
        version = self._version(bucket, key, 0.3)
        tags = "".join(f"<Tag><Key>k{each}</Key><Value>v</Value></Tag>" for each in range(self._random.randrange(3)))
        requests = (
            ("GET", "tagging", ""),
            ("GET", "tagging", ""),
            ("PUT", "tagging", f"<Tagging><TagSet>{tags}</TagSet></Tagging>"),
            ("PUT", "tagging", "<Tagging>"),
            ("DELETE", "tagging", ""),
            ("GET", "acl", ""),
        )
        method, name, body = self._random.choice(requests[:2] if bucket == PACKED else requests)
        self._add(method, bucket, key, ((name, ""), *version), (), body, form="plain", digest="right" if body else "")
        if bucket != PACKED:
            self._add("PUT", bucket, key, (("acl", ""),), (("x-amz-acl", "private"),), form="plain")
        self._read_of(bucket, key)

    def _odd(self) -> None:
        bucket, key = self._object()
        requests: tuple[tuple[str, str, str | None, Pairs, Pairs], ...] = (
            ("GET", "missing", key, (), ()),
            ("GET", "missing", None, (("list-type", "2"),), ()),
            ("HEAD", "missing", None, (), ()),
            ("HEAD", bucket, None, (), ()),
            ("GET", bucket, None, (("location", ""),), ()),
            ("GET", bucket, None, (("versioning", ""),), ()),
            ("GET", bucket, "k" * 1024, (), ()),
            ("PUT", bucket, "k" * 1024, (), ()),
            ("GET", bucket if bucket != PACKED else "missing", "", (), ()),
            ("HEAD", bucket, "", (), ()),
            ("HEAD", bucket, "dir", (), ()),
            ("GET", bucket, "k" * 1025, (), ()),
            ("PUT", bucket, "k" * 1025, (), ()),
            ("POST", bucket, key, (), ()),
            ("GET", bucket, key, (("torrent", ""),), ()),
            ("GET", bucket, key, (("unknown", "x"),), ()),
            ("GET", bucket, key, (), (("x-amz-expected-bucket-owner", "1"),)),
            ("PUT", bucket, key, (), (("x-amz-copy-source", "nonsense"),)),
            ("PUT", bucket, key, (), (("Content-MD5", "nonsense"),)),
            ("PUT", bucket, key, (), (("If-None-Match", '"0"'),)),
        )
        self._add(*self._random.choice(requests), form="plain")
