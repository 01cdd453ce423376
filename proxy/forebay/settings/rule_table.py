"""The settings of `[[rules]]`: the policy for the objects under a path."""

from typing import Final

from forebay.settings.setting import KIB, MIB, REQUIRED, UNSET, Setting
from forebay.settings.value_types import BOOLEAN, FRESHNESS, LISTING, PATTERN, PATTERNS, SIZE, WORD, choice

RULES: Final[tuple[Setting, ...]] = (
    Setting("rules[].path", PATTERN, REQUIRED, "The objects of the rule, as a pattern over bucket/key.", live=True),
    Setting(
        "rules[].name",
        WORD,
        UNSET,
        "The data set of the objects, in metrics and `forebay datasets`; in metrics the path of the first rule if no "
        "rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].accelerate",
        BOOLEAN,
        UNSET,
        "Whether the objects are cached; true if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].freshness",
        FRESHNESS,
        UNSET,
        "How long the objects are fresh after a validation at the origin; 60s if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].block",
        SIZE,
        UNSET,
        "The block size, a power of two; 1MiB if no rule sets it.",
        64 * KIB,
        64 * MIB,
        live=True,
    ),
    Setting(
        "rules[].warm_on_write",
        BOOLEAN,
        UNSET,
        "Whether written objects are cached as they pass; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].warm_on_head",
        BOOLEAN,
        UNSET,
        "Whether a HEAD with `Range: bytes=0-0` starts the object's warm-up; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].read_ahead",
        SIZE,
        UNSET,
        "Bytes that are fetched ahead of a reader whose requests follow each other, in an object and from object to "
        "object in the order of their keys; 0B, none, if no rule sets it.",
        0,
        live=True,
    ),
    Setting(
        "rules[].write",
        choice("through", "around", "back"),
        UNSET,
        'The write policy: "through"; "around", which never caches written bytes; or "back", which acknowledges a '
        'write once it is in the journal; "through" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].conflict",
        choice("keep", "overwrite"),
        UNSET,
        'How a pending write (`write = "back"`) is resolved when its object was written around Forebay meanwhile: '
        '"keep", it waits for a person, or "overwrite"; "keep" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].fence",
        PATTERNS,
        UNSET,
        'Patterns of objects, such as ["**/.metadata"], whose writes are acknowledged when they and all earlier '
        'acknowledged writes are at the origin; for `write = "back"`; none if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].listing",
        LISTING,
        UNSET,
        'The greatest age of a snapshot of the namespace that answers listings; "off" (listings are forwarded) if no '
        "rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].packed",
        PATTERN,
        UNSET,
        "The packs with these objects, as a pattern over keys of the same bucket, such as packed/**: a key without an "
        "object that is a member of a pack is read from the pack; none if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].plan_horizon",
        SIZE,
        UNSET,
        "Bytes that a plan has fetched ahead of its reader, within `memory.ahead`; 256MiB if no rule sets it; 0B: "
        "plans are only followed.",
        0,
        live=True,
    ),
    Setting(
        "rules[].record",
        BOOLEAN,
        UNSET,
        "Whether the order of reads of the objects is recorded; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].follow",
        BOOLEAN,
        UNSET,
        "Whether the objects are fetched ahead when they are read in the order of a recording; false if no rule sets "
        "it.",
        live=True,
    ),
    Setting(
        "rules[].eviction",
        choice("lru", "epoch"),
        UNSET,
        'The blocks that stay in a full tier: "lru", the most recently read, or "epoch", a stable share; "lru" if no '
        "rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].quota",
        SIZE,
        UNSET,
        "The largest part of the SSD tier that the objects may take; no quota if no rule sets it.",
        MIB,
        live=True,
    ),
)
