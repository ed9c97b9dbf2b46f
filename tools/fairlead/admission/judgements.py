"""Decides on the objects of a cluster one after the other, in batches, and remembers the answers to
like requests: of a thousand pods of one template, OPA is asked about the first."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.admission import asked, audit
from fairlead.admission.asked import Webhooks
from fairlead.admission.audit import Answer
from fairlead.admission.inventory import Subject
from fairlead.common.progress import Progress
from fairlead.policy import exceptions

BATCH = 1000
"""The most requests that OPA is asked about at once."""
LARGEST = 2**20
"""The most characters of these requests: a process of OPA takes some 100 MiB then."""
_WAITING = 4000
"""The most objects that are kept until there are enough requests for a batch."""
_CHARACTERS = 8 * 2**20
"""The most characters of all their requests: a user may write a megabyte into each."""
# The volume with the token of a pod's account, which API servers name anew for each pod.
_RANDOM = re.compile(r"kube-api-access-[a-z0-9]{5}")

Review = Mapping[str, Any]
Judged = tuple[Subject, Sequence[Answer]]


@dataclass
class Judgements:
    """Decides by these modules, where these webhooks ask. `kubernetes` is OPA's data (see
    Inventory.data), of which each batch gets only its own namespaces and their exceptions.

    `remembered` are the answers of an earlier pass with the same policies and webhooks, and `used`
    those that this pass needed, for the next one.
    """

    webhooks: Webhooks
    modules: Mapping[str, str]
    kubernetes: Mapping[str, Any]
    remembered: dict[bytes, Answer] = field(default_factory=dict)
    used: dict[bytes, Answer] = field(default_factory=dict, init=False)
    _same: dict[str, Answer] = field(default_factory=dict, init=False)

    def of(self, subjects: Iterable[Subject]) -> Iterator[Judged]:
        """Each object with the answers to its reviews. Raises FairleadError if OPA fails."""
        waiting: list[tuple[Subject, list[bytes]]] = []
        unknown: dict[bytes, Review] = {}
        characters = unknown_characters = 0
        for subject in subjects:
            keys = []
            for review in subject.reviews:
                text = self._text(review)
                characters += len(text)
                keys.append(hashlib.blake2b(text.encode(), digest_size=16).digest())
                if not self._is_known(keys[-1]) and keys[-1] not in unknown:
                    unknown[keys[-1]] = review
                    unknown_characters += len(text)
            waiting.append((subject, keys))
            is_full = len(waiting) >= _WAITING or characters >= _CHARACTERS
            is_batch = len(unknown) >= BATCH or unknown_characters >= LARGEST
            if not unknown or is_batch or is_full:
                yield from self._answered(waiting, unknown)
                waiting, unknown, characters, unknown_characters = [], {}, 0, 0
        yield from self._answered(waiting, unknown)

    def _is_known(self, key: bytes) -> bool:
        if key not in self.used and key in self.remembered:
            self.used[key] = self.remembered[key]
        return key in self.used

    def _answered(
        self, waiting: Sequence[tuple[Subject, list[bytes]]], unknown: Mapping[bytes, Review]
    ) -> Iterator[Judged]:
        if unknown:
            self._decide(unknown)
        for subject, keys in waiting:
            yield subject, [self.used[key] for key in keys]

    def _decide(self, unknown: Mapping[bytes, Review]) -> None:
        reviews = [*unknown.values()]
        names = {str(review["request"].get("namespace")) for review in reviews}
        namespaces = self.kubernetes["namespaces"]
        admissions = asked.ask(
            self.webhooks, reviews, namespaces, complete=True, progress=Progress()
        )
        answers = audit.decide(
            reviews,
            admissions,
            modules=self.modules,
            kubernetes={
                **self.kubernetes,
                **{
                    tree: {name: self.kubernetes[tree][name] for name in names & by_name.keys()}
                    for tree, by_name in self.kubernetes.items()
                    if tree in ("namespaces", exceptions.RESOURCE.name)
                },
            },
            progress=Progress(),
        )
        for key, answer in zip(unknown, answers, strict=True):
            # Most answers are equal, such as that a pod gets the pool of its namespace.
            self.used[key] = self._same.setdefault(repr(answer), answer)

    def _text(self, review: Review) -> str:
        """All that decides about a request: equal for pods of one template."""
        request = review["request"]
        namespace = str(request.get("namespace"))
        value = request["object"]
        metadata = value["metadata"]
        prefix = metadata.get("generateName")
        if prefix and str(metadata.get("name", "")).startswith(prefix):
            metadata = {key: part for key, part in metadata.items() if key != "name"}
            value = {**value, "metadata": metadata}
        parts = [
            namespace,
            self.kubernetes["namespaces"].get(namespace),
            self.kubernetes[exceptions.RESOURCE.name].get(namespace),
            request["resource"],
            value,
        ]
        return _RANDOM.sub("kube-api-access-*", json.dumps(parts, sort_keys=True))
