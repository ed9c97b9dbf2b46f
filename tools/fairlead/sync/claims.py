"""Decides which PlacementPolicy has a package, if several policies claim it.

A package and the packages below it belong to one PlacementPolicy: otherwise OPA would merge their
rules. Packages of ConfigMaps come first, then those of older PlacementPolicies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fairlead.deployment.names import PLACEMENT_POLICIES
from fairlead.sync import policy_problems
from fairlead.sync.config_maps import Claim, ConfigMap, Item
from fairlead.sync.desired import Snapshot
from fairlead.sync.placement_policies import KEY

Package = tuple[str, ...]
Parse = Callable[[str], Package | None]


class Claims:
    """Settles claims, and remembers the packages of texts in between."""

    def __init__(self) -> None:
        self._packages: dict[str, Package | None] = {}

    def settle(
        self,
        desired: Snapshot,
        accepted: Mapping[Item, str],
        parse: Callable[[str], Sequence[str] | None],
    ) -> Snapshot:
        """The snapshot without the texts of PlacementPolicies whose package another policy has.

        `accepted` are the texts that OPA accepted last, which stay in force while newer ones are
        rejected: their packages are taken, too. Until all sources are listed, no PlacementPolicy is
        loaded, because an older one may still be missing. `parse` has OPA find the package of a
        text, None if it cannot.
        """
        policies = sorted(
            (claimant for claimant in desired.config_maps if claimant.kind == "placement"),
            key=lambda policy_object: (policy_object.created, policy_object.owner),
        )
        if not policies:
            return desired
        if not desired.complete:
            held_back = {policy.item(KEY) for policy in policies}
            texts = {item: text for item, text in desired.texts.items() if item not in held_back}
            return replace(desired, texts=texts)
        packages: dict[str, Package | None] = {}

        def package(text: str) -> Package | None:
            if text not in packages:
                packages[text] = (
                    self._packages[text] if text in self._packages else _package(text, parse)
                )
            return packages[text]

        settled = _Settlement(desired, accepted, package).of(policies)
        self._packages = packages
        return settled


def _package(text: str, parse: Callable[[str], Sequence[str] | None]) -> Package | None:
    plain = policy_problems.plain_package(text)
    if plain is not None:
        return plain
    parts = parse(text)
    return None if parts is None else tuple(parts)


class _Settlement:
    def __init__(self, desired: Snapshot, accepted: Mapping[Item, str], parse: Parse) -> None:
        self._desired, self._accepted, self._parse = desired, accepted, parse
        self._taken: dict[Package, str] = {}
        """The packages that are taken, each with the name of its policy."""

    def of(self, policies: list[ConfigMap]) -> Snapshot:
        """The snapshot with the outcome for these policies, the oldest first."""
        for config_map in self._desired.config_maps:
            if config_map.kind == "policies":
                name = f"ConfigMap {'/'.join(config_map.owner)}"
                for key in (*config_map.texts, *config_map.problems):
                    for package in self._packages(config_map, key):
                        self._taken.setdefault(package, name)
        texts, broken = dict(self._desired.texts), set(self._desired.broken)
        claimants: dict[Package, list[str]] = {}
        outcomes = {}
        for policy in policies:
            outcomes[policy.owner] = self._outcome(policy, texts, broken, claimants)
        settled = tuple(
            self._with_rivals(outcomes[candidate.owner], claimants)
            if candidate.owner in outcomes
            else candidate
            for candidate in self._desired.config_maps
        )
        return replace(self._desired, texts=texts, broken=frozenset(broken), config_maps=settled)

    def _outcome(
        self,
        policy: ConfigMap,
        texts: dict[Item, str],
        broken: set[Item],
        claimants: dict[Package, list[str]],
    ) -> ConfigMap:
        """The policy with its claim, and with a problem if another one has its package. Changes
        what OPA should hold accordingly.
        """
        item, name = policy.item(KEY), f"{PLACEMENT_POLICIES[1]} {policy.owner[1]}"
        accepted = self._parse(self._accepted[item]) if item in self._accepted else None
        package = self._parse(policy.texts[KEY]) if KEY in policy.texts else None
        if accepted is not None and self._owner(accepted) is not None:
            # OPA has to drop the old text, whatever becomes of the new one.
            texts.pop(item, None)
            broken.discard(item)
            accepted = None
        if package is not None:
            policy = replace(policy, claim=Claim(package))
            claimants.setdefault(package, []).append(name)
            owner = self._owner(package)
            if owner is not None:
                if texts.pop(item, None) is not None and accepted is not None:
                    broken.add(item)
                problem = policy_problems.claimed(
                    item[1], policy.texts[KEY], policy.claim.package, owner
                )
                policy = replace(policy, texts={}, problems={KEY: problem})
            else:
                self._taken[package] = name
        if accepted is not None:
            self._taken[accepted] = name
        return policy

    def _with_rivals(self, policy: ConfigMap, claimants: Mapping[Package, list[str]]) -> ConfigMap:
        package = policy.claim.path
        if not package:
            return policy
        own_name = f"{PLACEMENT_POLICIES[1]} {policy.owner[1]}"
        rivals = {
            name: rival
            for rival, names in claimants.items()
            if meet(package, rival)
            for name in names
        }
        if KEY in policy.problems and (claimed := self._met(package)):
            rivals.setdefault(self._taken[claimed], claimed)
        rivals.pop(own_name, None)
        parts = {name: rival for name, rival in rivals.items() if len(rival) > len(package)}
        claim = replace(
            policy.claim,
            rivals=tuple(sorted(rivals)),
            shared=tuple((name, ".".join(rival)) for name, rival in sorted(parts.items())),
        )
        return replace(policy, claim=claim)

    def _packages(self, config_map: ConfigMap, key: str) -> Iterator[Package]:
        item = config_map.item(key)
        for text in {config_map.texts.get(key), self._accepted.get(item)} - {None}:
            package = self._parse(text or "")
            if package is not None:
                yield package

    def _owner(self, package: Package) -> str | None:
        """The policy that has this package, or one above or below it."""
        claimed = self._met(package)
        return None if claimed is None else self._taken[claimed]

    def _met(self, package: Package) -> Package | None:
        """The first package that is taken and is this one, or above or below it."""
        return next((claimed for claimed in self._taken if meet(package, claimed)), None)


def meet(first: Package, second: Package) -> bool:
    """Whether the packages are the same, or one is below the other."""
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]
