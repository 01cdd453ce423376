"""The RPC methods of key locks: what another worker is told about the writes of this one."""

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import encode_names
from forebay.server.rpc.lock_methods import LockMethods
from forebay.server.rpc.rpc_methods import OpenWrites
from forebay.write.key_locks import KeyLocks

KEY, OTHER = ObjectName("bucket", "key"), ObjectName("bucket", "other")


@pytest.mark.parametrize(("name", "expected"), [(KEY, True), (OTHER, False)])
async def test_it_says_whether_a_key_is_being_deleted(name: ObjectName, expected: bool) -> None:  # a parameter
    locks = KeyLocks(Peers())
    method = LockMethods(locks).methods.ordered["is_being_deleted"]
    async with locks.for_deletion([KEY]):
        assert method(dict(encode_names([name])), OpenWrites()) == {"deleting": expected}
    assert method(dict(encode_names([KEY])), OpenWrites()) == {"deleting": False}


@pytest.mark.parametrize("kind", ["await_deletions", "await_writes"])
async def test_it_answers_when_the_writes_have_ended(kind: str) -> None:
    locks, tasks = KeyLocks(Peers()), TaskRegistry()
    method = LockMethods(locks).methods.unary[kind]
    context = locks.for_deletion([KEY]) if kind == "await_deletions" else locks.for_change(KEY)
    async with context:
        asked = tasks.spawn(method(dict(encode_names([KEY]))), kind)
        assert await method(dict(encode_names([OTHER]))) == {}
        assert not asked.done()
    assert await asked == {}


async def test_a_document_that_does_not_fit_is_refused() -> None:
    methods = LockMethods(KeyLocks(Peers())).methods
    with pytest.raises(PeerUnavailable):
        methods.ordered["is_being_deleted"]({"names": [3]}, OpenWrites())
