"""The verbs that a single worker and a node of several share: the configuration in force, and the cached objects. Their
effect in the workers is in worker_control and workers.node_control."""

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from forebay.core.errors import SettingsError
from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.server.admin.change_log import change_sentence
from forebay.server.admin.control import CacheVerbs, ConfigVerbs, DataSetVerbs, StateVerbs
from forebay.server.admin.schema.admin_schema import ConfigChanged, Document, Explanation, Purged, Resized
from forebay.server.admin.schema.object_state import ObjectState
from forebay.server.config_source import SENT_NAME, ConfigSource, SizeOverrides, set_log_level
from forebay.server.resource_limits import tier_warning
from forebay.settings.effective_config import changed_paths, effective_config
from forebay.settings.live_changes import applied_settings, restart_needed
from forebay.settings.loader import Loaded
from forebay.settings.model import Settings

_log = logging.getLogger(__name__)

PURGE_PAGE_SIZE: Final = 1000
"""Objects that a purge drops at once."""
_IN_MEMORY: Final = frozenset({"memory.size", "memory.buffers", "memory.ahead", "memory.rings"})


class SharedControl(StateVerbs, ConfigVerbs, CacheVerbs, DataSetVerbs):
    """Implements the four interfaces of server.admin.control that need the settings."""

    def __init__(self, settings: Settings, source: ConfigSource) -> None:
        self.settings = settings
        """The configured settings, as far as they are in force."""
        self.source = source
        self.size_overrides = SizeOverrides()
        self.is_ending = False
        """Whether Forebay got the signal to stop; it is not ready any more then."""

    async def config(self) -> Document:
        """The settings in force, with the tiers' current sizes."""
        return effective_config(self.size_overrides.apply(self.settings))

    async def replace_config(self, toml: str) -> ConfigChanged:
        """Puts the sent configuration in force."""
        return await self._with_capacity(await self._apply_text(toml, 0o600, SENT_NAME))

    async def reload_config(self) -> ConfigChanged | None:
        """Puts the file's configuration in force."""
        if self.source.file is None:
            return None
        try:
            text, mode = await self.source.reread()
        except SettingsError:
            self._config_refused()
            raise
        return await self._with_capacity(await self._apply_text(text, mode))

    async def _with_capacity(self, answer: ConfigChanged) -> ConfigChanged:
        """Returns the answer with warnings about the tiers that the configuration has resized, as `resize` has."""
        settings, changed = self.size_overrides.apply(self.settings), set(answer.changed)
        tiers: list[TierName] = ["memory"] if changed & _IN_MEMORY else []
        tiers += ["ssd"] if "ssd.size" in changed else []
        found = [await asyncio.to_thread(tier_warning, tier, settings) for tier in tiers]
        return replace(answer, warnings=(*answer.warnings, *filter(None, found)))

    async def _resized(self, tier: TierName, before: int, after: int) -> Resized:
        """Returns the outcome for a tier whose size was overridden."""
        settings = self.size_overrides.apply(self.settings)
        return Resized(tier, before, after, await asyncio.to_thread(tier_warning, tier, settings))

    async def reload_and_log(self) -> None:
        """`reload_config` for SIGHUP: the log has the outcome. A refused configuration changes nothing."""
        try:
            answer = await self.reload_config()
        except SettingsError as error:
            _log.error("the configuration is refused, nothing has changed: %s", error)
        else:
            _log.info("%s", change_sentence(answer) or "there is no configuration file to read again")

    async def explain(self, bucket: str, key: str, access_key: str = "") -> Explanation:
        """Explains a read by the settings in force and the listing of the cache."""
        page = await self.list_cached(bucket, key, limit=1)  # the prefix itself comes first
        cached = next((entry for entry in page.objects if entry.key == key), None)
        name = ObjectName(bucket, key)
        state, shard = await self._object_state(name), None
        if state.member is not None:
            page = await self.list_cached(bucket, state.member.shard, limit=1)
            shard = next((entry for entry in page.objects if entry.key == state.member.shard), None)
        from forebay.server.admin.explanation import explain  # noqa: PLC0415 # a supervisor starts without the policies

        return explain(self.settings, name, access_key, cached, shard, state=state, now=self._now())

    async def purge(self, bucket: str, prefix: str = "") -> Purged:
        """Invalidates the listed objects under the prefix, page by page, and drops the snapshots of listings
        themselves."""
        await self._drop_listings(bucket, prefix)
        objects = size = 0
        after: str | None = ""
        while after is not None:
            page = await self.list_cached(bucket, prefix, after, PURGE_PAGE_SIZE)
            objects += len(page.objects)
            size += sum(entry.cached for entry in page.objects)
            await self._invalidate([entry.name for entry in page.objects])
            after = page.next
        return Purged(objects, size)

    async def load(self, text: str | None, mode: int, name: str | None = None) -> Loaded:
        """The settings of a configuration's text, validated as a whole. Raises SettingsError."""
        try:
            return await asyncio.to_thread(self.source.load_text, text, mode, name)
        except SettingsError:
            self._config_refused()
            raise

    def put_in_force(self, loaded: Loaded) -> tuple[ConfigChanged, list[tuple[TierName, int]]]:
        """Makes a configuration the current one. Returns the changes, and the tiers with a new size by it."""
        old, new = self.settings, loaded.settings
        self.settings = applied_settings(old, new)
        set_log_level(new)
        sizes = list(self.size_overrides.drop_changed(old, self.settings))
        changed, restart = tuple(changed_paths(old, new)), tuple(restart_needed(old, new))
        return ConfigChanged(changed, restart, loaded.warnings if changed or restart else ()), sizes

    def _config_refused(self) -> None:
        """Called when a configuration was refused."""

    @abstractmethod
    async def _apply_text(self, text: str | None, mode: int, name: str | None = None) -> ConfigChanged:
        """Loads a configuration's text and puts it in force."""

    @abstractmethod
    async def _object_state(self, name: ObjectName) -> ObjectState:
        """Returns the state of the object in the workers."""

    def _now(self) -> float:
        """The clock of freshness, in seconds since the epoch."""
        return time.time()

    @abstractmethod
    async def _drop_listings(self, bucket: str, prefix: str) -> None:
        """Drops the snapshots of namespaces with keys under the prefix, in all workers."""

    @abstractmethod
    async def _invalidate(self, names: Sequence[ObjectName]) -> None:
        """Drops these objects in all workers."""
