"""Calls of the client library, drawn at random: steps for all ways (differential.client_calls)."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from differential.client_arguments import INDEX, MEMBERS, ArgumentGenerator
from differential.client_calls import Step, Way
from forebay_client import BatchKey
from forebay_client.packs import PackReader

PREFIXES: Final = ("dir", "dir/sub", "a", "new", "trail")
LOOKS: Final = ["ls", "info", "find", "exists", "isdir", "isfile", "du", "ukey", "size", "modified", "walk", "glob"]
LISTED: Final = (
    "",
    "",
    "a",
    "a/",
    "dir/",
    "dir/sub/",
    "none",
    "é",
    "ä/",
    "/",
    "trail/",
    "q&",
    "line\n",
    "k" * 1024,
    "\0",
)
AFTER: Final = ("", "", "a", "dir/", "dir/1", "dir/sub/", "é" * 512, "zzz", "a\n", "\x7f", "\U0001f600")
METADATA: Final = (
    None,
    None,
    {"a": "b", "Upper": "Case"},
    {"x y": "z"},
    {"n": "é"},
    {"n": ""},
    {"n": " x  y "},
    {"n": 7},
)


class CallGenerator(ArgumentGenerator):
    """Draws steps. Some keys come again and again, so that they are hits."""

    def steps(self, count: int) -> list[Step]:
        kinds: list[tuple[Callable[[], Step], int]] = [
            (self._get, 8),
            (self._range, 12),
            (self._into, 8),
            (self._many, 10),
            (self._head, 3),
            (self._list, 6),
            (self._file, 8),
            (self._put, 5),
            (self._put_file, 1),
            (self._create, 3),
            (self._delete, 2),
            (self._pack, 2),
            (self._fs_read, 6),
            (self._fs_look, 5),
            (self._fs_write, 4),
        ]
        drawn = self._random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds], k=count)
        steps = []
        for kind in drawn:
            step = kind()
            steps += [step] * self._random.choice((1, 1, 2, 3))
        return steps

    # Calls

    def _get(self) -> Step:
        key = self._key()
        version = self._random.choice((None,) * 8 + ("null", "none"))
        if version is None:
            return Step(f"get({_short(key)})", lambda way: way.call("get", key))
        return Step(f"get({_short(key)}, {version})", lambda way: way.call("get", key, version_id=version))

    def _range(self) -> Step:
        key = self._key()
        start, end = self._position(key, none=False), self._position(key)
        return Step(f"get_range({_short(key)}, {start}, {end})", lambda way: way.call("get_range", key, start, end))

    def _into(self) -> Step:
        key, (text, make) = self._key(), self._buffer()
        start = self._random.choice((0, self._position(key, none=False)))

        def run(way: Way) -> Any:
            buffer = make()
            count = way.call("get_into", key, buffer, start)
            return count, bytes(memoryview(buffer).cast("B")) if memoryview(buffer).nbytes else b""

        return Step(f"get_into({_short(key)}, {text}, {start})", run)

    def _many(self) -> Step:
        draw = self._random
        keys = [self._batch_key() for _ in range(draw.choice((0, 1, 2, 3, 8, 30)))]
        keys += draw.choices(keys, k=len(keys) // 3) if keys else []
        if draw.random() < 0.7:  # else most would be refused before anything is sent
            keys = [key for key in keys if _is_drawable(key)]
        ordered, fails, as_iterator = draw.random() < 0.6, draw.random() < 0.1, draw.random() < 0.4

        def drawn() -> Iterator[Any]:
            yield from keys
            if fails:
                raise KeyError("no more")

        def run(way: Way) -> Any:
            items = way.call("get_many", drawn() if fails or as_iterator else keys, ordered=ordered)
            return items if ordered else sorted(items, key=lambda item: item.index)

        return Step(f"get_many({[_short(key) for key in keys]}, ordered={ordered}, fails={fails})", run)

    def _head(self) -> Step:
        key = self._key()
        return Step(f"head({_short(key)})", lambda way: way.call("head", key))

    def _list(self) -> Step:
        draw = self._random
        prefix, delimiter = draw.choice(LISTED), draw.choice(("", "", "/", "/", "//", "é", "ub", "?", "\n", " "))
        after = draw.choice((*AFTER, self._key(0)))
        return Step(
            f"list({_short(prefix)}, {delimiter!r}, {_short(after)})",
            lambda way: way.call("list", prefix, delimiter=delimiter, start_after=after),
        )

    def _file(self) -> Step:
        draw, key = self._random, self._key(0.05)
        read_ahead = draw.choice((0, 1, 1000, 131_072, 8 << 20))
        moves: list[tuple[str, tuple[Any, ...]]] = []
        for _ in range(draw.randrange(1, 7)):
            name = draw.choice(("read", "read", "seek", "seek", "readinto", "read1", "readline", "tell", "readlines"))
            match name:
                case "seek":
                    moves.append((name, (self._position(key, none=False), draw.choice((0, 0, 1, 2, 3)))))
                case "readinto":
                    moves.append((name, (draw.choice((0, 1, 100, 70_000, 400_000)),)))
                case "tell":
                    moves.append((name, ()))
                case _:
                    moves.append((name, (draw.choice((None, -1, 0, 1, 100, 50_000)),)))

        def run(way: Way) -> Any:
            found: list[Any] = []
            with way.call("open", key, read_ahead=read_ahead) as file:
                found.append((file.size, file.etag, file.mode, file.name))
                for name, arguments in moves:
                    if name == "readinto":
                        buffer = bytearray(arguments[0])
                        found.append((file.readinto(buffer), bytes(buffer)))
                    else:
                        call = partial(getattr(file, name), *arguments)
                        found.append(Step("", partial(_called, call)).outcome(way))
            return found

        return Step(f"open({_short(key)}, {read_ahead}): {moves}", run)

    def _new_key(self) -> Any:
        return self._random.choice((*(f"new/{number}" for number in range(6)), self._key(0.3)))

    def _headers(self) -> dict[str, Any]:
        draw = self._random
        kinds = (None, None, "text/plain", 'a/b; charset="x"', "", "é", "a\nb", " x ")
        return {"content_type": draw.choice(kinds), "metadata": draw.choice(METADATA)}

    def _put(self) -> Step:
        key, (text, make), headers = self._new_key(), self._data(), self._headers()

        def run(way: Way) -> Any:
            written = way.call("put", key, make(), **headers)
            return written, way.call("head", key), way.call("get", key)

        return Step(f"put({_short(key)}, {text}, {headers})", run)

    def _put_file(self) -> Step:
        draw, key, headers = self._random, self._new_key(), self._headers()
        size, part = draw.choice((0, 100, 6 << 20)), draw.choice((0, 1, 5 << 20))
        missing = draw.random() < 0.1

        def run(way: Way) -> Any:
            path = way.directory / "file"
            path.write_bytes(bytes(size))
            written = way.call("put_file", key, path.with_name("none") if missing else path, part, **headers)
            return written, way.call("get", key)

        return Step(f"put_file({_short(key)}, {size}, {part}, {headers}, missing={missing})", run)

    def _create(self) -> Step:
        draw, key, headers = self._random, self._new_key(), self._headers()
        pieces = [self._data() for _ in range(draw.choice((0, 1, 3)))]
        fails = draw.random() < 0.2

        def run(way: Way) -> Any:
            with suppress(ZeroDivisionError), way.call("create", key, **headers) as file:
                for _, make in pieces:
                    file.write(make())
                if fails:
                    raise ZeroDivisionError
            return file.info, way.call("get", key)

        return Step(f"create({_short(key)}, {[text for text, _ in pieces]}, fails={fails})", run)

    def _delete(self) -> Step:
        key = self._new_key()

        def run(way: Way) -> Any:
            before = way.call("delete", key)
            return before, Step("", lambda _: way.call("get", key)).outcome(way)

        return Step(f"delete({_short(key)})", run)

    def _pack(self) -> Step:
        draw = self._random
        keys = draw.choices([*MEMBERS, "none", ""], k=draw.choice((1, 3, 20)))
        key, start = keys[0], draw.choice((0, 5, 5000, -1))

        def run(way: Way) -> Any:
            reader = PackReader(way.client, way.bucket, INDEX)
            one = [
                Step("", lambda _: reader.get(key)).outcome(way),
                Step("", lambda _: reader.head(key)).outcome(way),
                Step("", lambda _: reader.get_range(key, start, start + 9)).outcome(way),
            ]
            return one, list(reader.get_many(keys)), list(reader.keys("m/01"))

        return Step(f"pack({keys}, {start})", run)

    # fsspec

    def _path(self) -> Callable[[Way], str]:
        key = self._key(0.05) if self._random.random() < 0.8 else self._random.choice(PREFIXES)
        return lambda way: f"{way.bucket}/{key}"

    def _fs_read(self) -> Step:
        draw = self._random
        key = self._key(0.1)
        start, end = self._position(key), self._position(key)
        paths = [self._path() for _ in range(draw.choice((1, 3, 9)))]
        on_error = draw.choice(("return", "omit", "raise"))
        calls: dict[str, Callable[[Way], Any]] = {
            f"cat_file({_short(key)}, {start}, {end})": lambda way: way.fs.cat_file(f"{way.bucket}/{key}", start, end),
            f"cat_ranges({len(paths)}, {start}, {end}, {on_error})": lambda way: way.fs.cat_ranges(
                [path(way) for path in paths], start, end, on_error=on_error
            ),
            f"cat({len(paths)}, {on_error})": lambda way: way.fs.cat([path(way) for path in paths], on_error=on_error),
            f"fs.open({_short(key)})": lambda way: _read_file(way, key),
        }
        text = draw.choice(list(calls))
        return Step(text, calls[text])

    def _fs_look(self) -> Step:
        draw, path = self._random, self._path()
        name = draw.choice(LOOKS)

        def run(way: Way) -> Any:
            at = path(way) + ("/*" if name == "glob" else "")
            found = getattr(way.fs, name)(at)
            return [(where, sorted(dirs), sorted(files)) for where, dirs, files in found] if name == "walk" else found

        return Step(f"fs.{name}({path})", run)

    def _fs_write(self) -> Step:
        draw, one, other = self._random, self._new_key(), self._new_key()
        text, make = self._data()

        def written(mode: str) -> Callable[[Way], Any]:
            def run(way: Way) -> Any:
                with way.fs.open(f"{way.bucket}/{one}", mode) as file:
                    file.write(make())
                return way.fs.cat_file(f"{way.bucket}/{one}")

            return run

        calls: dict[str, Callable[[Way], Any]] = {
            f"fs.pipe_file({_short(one)}, {text})": lambda way: way.fs.pipe_file(f"{way.bucket}/{one}", make()),
            f"fs.cp_file({_short(one)}, {_short(other)})": lambda way: way.fs.cp_file(
                f"{way.bucket}/{one}", f"{way.bucket}/{other}"
            ),
            f"fs.mv({_short(one)}, {_short(other)})": lambda way: way.fs.mv(
                f"{way.bucket}/{one}", f"{way.bucket}/{other}"
            ),
            f"fs.rm_file({_short(one)})": lambda way: way.fs.rm_file(f"{way.bucket}/{one}"),
            f"fs.touch({_short(one)})": lambda way: way.fs.touch(f"{way.bucket}/{one}"),
            **{f"fs.open({_short(one)}, {mode}): {text}": written(mode) for mode in ("wb", "ab", "xb")},
        }
        name = draw.choice(list(calls))
        return Step(name, calls[name])


def _read_file(way: Way, key: Any) -> Any:
    with way.fs.open(f"{way.bucket}/{key}", "rb", block_size=4096) as file:
        return file.read(10), file.seek(-5, 2), file.read(), file.size


def _called(call: Callable[[], Any], _way: Way) -> Any:
    return call()


def _is_drawable(key: Any) -> bool:
    """Whether a batch takes the key at all, and the rest with it."""
    name: Any
    start: Any
    end: Any
    name, start, end, _ = key if isinstance(key, BatchKey) else BatchKey(key)
    end = start if end is None else end
    return isinstance(name, str) and type(start) is int and type(end) is int and 0 <= start <= end


def _short(key: Any) -> str:
    text = repr(key)
    return text if len(text) < 60 else f"{text[:40]}...({len(text)})"
