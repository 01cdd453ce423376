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
        "The data set that they count as, in metrics and `forebay datasets`; in metrics the path of the first rule if "
        "no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].accelerate",
        BOOLEAN,
        UNSET,
        "Whether they are cached; true if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].freshness",
        FRESHNESS,
        UNSET,
        "How long they are fresh after a validation at the origin; 60s if no rule sets it.",
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
        'What becomes of a pending write (`write = "back"`) of an object that was written around Forebay meanwhile: '
        '"keep", it waits for a person, or "overwrite"; "keep" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].fence",
        PATTERNS,
        UNSET,
        "Patterns of those among them that are acknowledged once they, and all that was acknowledged before, are at "
        'the origin, such as ["**/.metadata"]; for `write = "back"`; none if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].listing",
        LISTING,
        UNSET,
        'How old a listing may be that is answered from a snapshot of the namespace; "off" (passed on) if no rule sets '
        "it.",
        live=True,
    ),
    Setting(
        "rules[].packed",
        PATTERN,
        UNSET,
        "Where the packs with these objects are, as a pattern over keys of the same bucket, such as packed/**: a key "
        "that is no object but a member of a pack is read as if it were; none if no rule sets it.",
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
        "Whether the order in which they are read is recorded; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].follow",
        BOOLEAN,
        UNSET,
        "Whether they are fetched ahead when they are read in the order of a recording; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].eviction",
        choice("lru", "epoch"),
        UNSET,
        'What stays in a full tier: "lru", what was read last, or "epoch", a stable share; "lru" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].quota",
        SIZE,
        UNSET,
        "The largest part of the SSD tier that they may take; none of their own if no rule sets it.",
        MIB,
        live=True,
    ),
)
