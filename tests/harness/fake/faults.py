"""Which answers are spoilt: rules, each a matcher and the actions of harness.fake.actions.

A rule without conditions matches every request. All rules that match act together. A rule skips its first `skip`
matches and acts on the next `times` (None: on all that follow).
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.fake.actions import Action
from harness.fake.s3_request import S3Request


@dataclass(slots=True)
class Rule:
    actions: tuple[Action, ...]
    method: str | None = None
    operation: str | None = None
    bucket: str | None = None
    key: str | None = None
    range: str | bool | None = None
    """The Range header as sent, or whether there is one."""
    where: Callable[[S3Request], bool] | None = None
    skip: int = 0
    times: int | None = None
    matched: int = 0
    applied: int = 0

    def _matches(self, s3_request: S3Request) -> bool:
        wanted = (
            (self.method, s3_request.method),
            (self.operation, s3_request.operation),
            (self.bucket, s3_request.bucket),
            (self.key, s3_request.key),
            (self.range, (s3_request.range is not None) if isinstance(self.range, bool) else s3_request.range),
        )
        if any(want is not None and want != got for want, got in wanted):
            return False
        return self.where is None or self.where(s3_request)

    def actions_for(self, s3_request: S3Request, *, is_probe: bool) -> tuple[Action, ...]:
        """The actions for this request, counted; none if the rule doesn't act on it. A probe of Forebay's own, which
        comes when it likes, uses up none of a rule's times."""
        if not self._matches(s3_request) or (is_probe and self.times is not None):
            return ()
        self.matched += 1
        if self.matched <= self.skip or (self.times is not None and self.applied >= self.times):
            return ()
        self.applied += 1
        return self.actions


class Faults:
    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def add(
        self,
        *actions: Action,
        method: str | None = None,
        operation: str | None = None,
        bucket: str | None = None,
        key: str | None = None,
        range: str | bool | None = None,  # noqa: A002  # the header's name
        where: Callable[[S3Request], bool] | None = None,
        skip: int = 0,
        times: int | None = None,
    ) -> Rule:
        """Adds a rule and returns it: `rule.applied` counts, `faults.remove(rule)` ends it."""
        rule = Rule(actions, method, operation, bucket, key, range, where, skip, times)
        self.rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        self.rules.remove(rule)

    def clear(self) -> None:
        self.rules.clear()

    def actions_for(self, s3_request: S3Request, *, is_probe: bool) -> tuple[Action, ...]:
        return tuple(action for rule in self.rules for action in rule.actions_for(s3_request, is_probe=is_probe))
