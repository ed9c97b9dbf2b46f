"""Sends OPA AdmissionReviews gone wrong, and checks that each is answered well and no pod slips through unplaced.

The oracle is written from the contract (docs/node-pool.md), not from the policies:
- What is JSON and not too large is answered with 200 and an AdmissionReview v1 that an API server takes; what is not,
  with 400; numbers like 1e999999999, which no API server sends, OPA 1.22 answers with 500, which an API server takes
  for a refusal. An answer has the request's uid; where that is missing, too long or no text, the uid is empty and
  the request denied, as is every review that does not say what is asked.
- A pod that is created in a mapped namespace and allowed has the assignment once the patch is applied, no nodeName, and
  is the same pod otherwise. In a namespace that nobody knows it is never allowed. An update gets no patch, and what it
  makes of the nodeSelector satisfies the assignment. What has no say in is not patched.
- OPA stays the same process, within the memory that its deployment allows it.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import jsonpointer

from fairlead import files, paths, policy, review, staging
from fairlead.fuzz.bodies import LABEL, NAMESPACES, RAW, Body, bodies
from fairlead.fuzz.client import Http1, Response
from fairlead.fuzz.search import Search, Violation, search
from fairlead.fuzz.server import Opa, running
from fairlead.pod import LARGEST_REVIEW
from fairlead.policy import Bundle
from fairlead.progress import Progress
from fairlead.settings import Pool, Settings, Toleration

EXAMPLES = 50_000
FOLDER = "testdata/fuzz/reviews"
"""Bodies that once were answered wrongly, or might be: each run sends them first."""
_LONGEST_UID = 256
"""Characters; of a longer one the answer repeats nothing."""
MEMORY = 512 * 1024 * 1024
"""Bytes; the limit of OPA's container (integration/deploy/50-deployment.yaml.j2)."""

_TOLERATION = Toleration(key="gpu", operator="Exists", effect="NoSchedule")
PROFILES: Mapping[str, Settings] = {
    "defaults": Settings(),
    "pools": Settings(
        pod_selector="merge",
        default_pool="pool1",
        pools={
            "pool1": Pool(node_selector={LABEL: "pool1", "disk": "ssd"}, tolerations=[_TOLERATION]),
            "pool2": Pool(),
        },
    ),
}
"""Settings that are fuzzed one after the other."""


def run(
    *,
    examples: int = EXAMPLES,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    spoil: Callable[[Bundle], Bundle] = lambda bundle: bundle,
) -> dict[str, Any]:
    """Fuzz OPAs of its own, each with one of PROFILES: {fuzz, seed, tried, seconds, outcomes, memory, why, example}.

    `why` is None where all holds, else what does not; `example` is the smallest body that shows it, as Body.load takes
    it. `memory` is the most that an OPA had resident, in bytes, None where the system does not tell. `policies` is a
    folder; `spoil` changes what is loaded of it.
    """
    began = time.monotonic()
    totals: Search[Body] = Search()
    memory = None
    for name, settings in PROFILES.items():
        bundle = spoil(staging.stage(policy.bundle(settings, policies), progress))
        data = {
            "kubernetes/namespaces": {name: {"metadata": {"name": name, **part}} for name, part in NAMESPACES.items()}
        }
        with (
            tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder,
            running(Opa(Path(folder), bundle=bundle, data=data)) as opa,
        ):
            target = _Target(opa, settings)
            try:
                target.check_samples()
                totals.try_known(map(Body.load, sorted((paths.root() / FOLDER).glob("*.json"))), target.check)
                if not totals.why:
                    totals.add(
                        search(
                            bodies(),
                            target.check,
                            examples=max(1, examples // len(PROFILES)),
                            seed=seed,
                            name=f"reviews ({name})",
                            progress=progress,
                        )
                    )
                memory = max(memory or 0, opa.peak_memory or 0) or None
            except Violation as violation:
                totals.why = totals.why or str(violation)
            finally:
                target.close()
        if totals.why:
            break
    return {
        "fuzz": "reviews",
        "seed": seed,
        "tried": totals.tried,
        "seconds": round(time.monotonic() - began, 1),
        "outcomes": [{"outcome": outcome, "count": count} for outcome, count in totals.outcomes.most_common()],
        "memory": memory,
        "why": totals.why or None,
        "example": totals.failing.document() if totals.failing else None,
    }


class _Target:
    """The OPA under test."""

    def __init__(self, opa: Opa, settings: Settings) -> None:
        self._opa = opa
        self._settings = settings
        self._pid = opa.pid
        self._client = Http1(opa.address, opa.ca)

    def close(self) -> None:
        self._client.close()

    def check_samples(self) -> None:
        """Raises Violation where the sample review is not decided as it should: then nothing else is worth asking."""
        sample = files.read_json(paths.root() / "testdata" / "review.json")
        if (outcome := self.check(Body(json.dumps(sample).encode()))) != "allowed: pod placed":
            raise Violation(f"the sample review is not placed, but {outcome}")

    def check(self, body: Body) -> str:
        """The outcome of one body. Raises Violation."""
        headers = [(b"Content-Type", body.type.encode())]
        if body.encoding:
            headers.append((b"Content-Encoding", body.encoding.encode()))
        try:
            answer = self._client.send(b"POST", b"/", headers, body.content)
        except TimeoutError:
            self._client.close()
            raise Violation("no answer within a minute") from None
        if self._opa.pid != self._pid:
            self._opa.stop()
            self._opa.start()
            self._pid = self._opa.pid
            raise Violation("OPA ended")
        peak = self._opa.peak_memory
        if peak is not None and peak > MEMORY:
            self._opa.stop()
            self._opa.start()
            self._pid = self._opa.pid
            raise Violation(f"OPA took {peak >> 20} MiB of memory, and has a limit of {MEMORY >> 20}")
        return judge(body, answer, self._settings)


def judge(body: Body, answer: Response | None, settings: Settings) -> str:
    """The outcome of what was answered to `body`. Raises Violation."""
    asked = _read(body)
    if answer is None:
        if len(body.content) > LARGEST_REVIEW:  # OPA answers at once and ends; what is still being sent may break that
            return "400: not JSON, or too large"
        if body.encoding and isinstance(asked, _NoJson):  # see fairlead.fuzz.guard
            return "no answer to gzip that is none"
        raise Violation("the connection was ended without an answer")
    if answer.status == 400:
        if isinstance(asked, _NoJson) or body.type != Body.type or len(body.content) > LARGEST_REVIEW:
            return "400: not JSON, or too large"
        raise Violation(f"JSON is answered with 400: {answer.body[:300]!r}")
    if answer.status == 500 and b"number too big" in answer.body and _EXPONENT.search(body.content):
        return "500: a number too big"
    if answer.status != 200:
        raise Violation(f"answered with {answer.status}: {answer.body[:300]!r}")
    response = _response(answer.body)
    try:
        return _Judgement(None if isinstance(asked, _NoJson) else asked, response, settings).outcome()
    except Violation as violation:
        raise Violation(f"{violation}; the answer: {answer.body[:600].decode(errors='replace')}") from None


_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{4}")


class _NoJson:
    """Stands for what cannot be read."""


@dataclass(frozen=True)
class _Number:
    """A number of JSON as it is written, which Python might round, or take minutes for."""

    text: str


def _read(body: Body) -> Any:
    content = body.content
    if "gzip" in body.encoding:
        try:
            unpacked = zlib.decompressobj(wbits=31)
            content = unpacked.decompress(content, LARGEST_REVIEW + 1)
            if not unpacked.eof or unpacked.unused_data:
                return _NoJson()
        except zlib.error:
            return _NoJson()
    if len(content) > LARGEST_REVIEW:
        return _NoJson()
    text = content.decode("utf-8", errors="replace")
    for name, short in (("deep list", "[]"), ("deep object", '{"a": 1}')):  # deeper than Python's decoder goes
        text = text.replace(RAW[name], short)
    try:
        return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NoJson()


def _refuse(_name: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")


def _response(content: bytes) -> Any:
    """The response of an AdmissionReview v1, as far as an API server insists on it.

    Source: Kubernetes, pkg/admission/plugin/webhook/request (VerifyAdmissionResponse), and admission/v1 types.
    """
    try:
        answer = json.loads(content)
    except ValueError:
        raise Violation(f"answered with something that is no JSON: {content[:300]!r}") from None
    wrong = ""
    if not isinstance(answer, dict) or answer.keys() != {"apiVersion", "kind", "response"}:
        raise Violation(f"answered with something else than a review: {content[:300]!r}")
    response = answer["response"]
    if (answer["apiVersion"], answer["kind"]) != ("admission.k8s.io/v1", "AdmissionReview"):
        wrong = "its apiVersion or kind is not a review's"
    elif not isinstance(response, dict) or not isinstance(response.get("uid"), str):
        wrong = "it has no response with a uid"
    elif not isinstance(response.get("allowed"), bool):
        wrong = "its `allowed` is no truth value"
    elif response.keys() - {"uid", "allowed", "patch", "patchType", "status", "warnings", "auditAnnotations"}:
        wrong = "its response has unknown fields"
    elif ("patch" in response) != (response.get("patchType") == "JSONPatch"):
        wrong = "it has a patch without a patchType, or the other way round"
    elif "patch" in response and not response["allowed"]:
        wrong = "it has a patch for what it denies"
    elif not all(isinstance(one, str) and one for one in _list(response.get("warnings", []))):
        wrong = "its warnings are not all text"
    elif not all(isinstance(one, str) for one in _object(response.get("auditAnnotations", {})).values()):
        wrong = "its audit annotations are not all text"
    elif not response["allowed"] and not _object(response.get("status")).get("message"):
        wrong = "it denies without a message"
    elif not isinstance(_object(response.get("status", {})).get("code", 0), int):
        wrong = "its status code is no number"
    if wrong:
        raise Violation(f"answered with no valid review, as {wrong}: {content[:600].decode(errors='replace')}")
    return response


class _Judgement:
    """One answer against the contract; `asked` is the review, None where it could not be read."""

    def __init__(self, asked: Any, response: dict[str, Any], settings: Settings) -> None:
        self._request = _object(_object(asked).get("request"))
        self._asked = asked
        self._allowed = response["allowed"]
        self._uid = response["uid"]
        self._settings = settings
        self._patch = review.patch_of({"response": response}) if "patch" in response else None

    def outcome(self) -> str:
        """What became of it. Raises Violation."""
        told = self._request.get("uid") if self._is_review() else None
        readable = self._is_review() and self._says_what_is_asked()
        if readable and _comparable(self._uid) != _comparable(told):
            raise Violation(f"the answer's uid is not the request's, {told!r}")
        if not readable:
            if self._allowed:
                raise Violation("a review is allowed that does not say what is asked")
            return "denied: not readable"
        kind = self._request["kind"]
        above = self._request.get("subResource") in (None, "")
        operation = self._request["operation"]
        if (kind.get("group", ""), kind["kind"]) == ("", "Pod") and above and operation in ("CREATE", "UPDATE"):
            return self._created() if operation == "CREATE" else self._updated()
        if not self._allowed:
            return "denied: no pod"
        if self._patch is not None and (not above or operation not in ("CREATE", "UPDATE")):
            raise Violation("a subresource, or what goes, is patched")
        self._patched()
        return "allowed: no pod" if self._patch is None else "allowed: no pod, patched"

    def _is_review(self) -> bool:
        asked = _object(self._asked)
        return (asked.get("apiVersion"), asked.get("kind")) == (
            "admission.k8s.io/v1",
            "AdmissionReview",
        ) and isinstance(asked.get("request"), dict)

    def _says_what_is_asked(self) -> bool:
        kind = self._request.get("kind")
        return (
            isinstance(kind, dict)
            and isinstance(kind.get("kind"), str)
            and isinstance(kind.get("group", ""), str)
            and isinstance(self._request.get("operation"), str)
            and self._request["operation"] in review.OPERATIONS
            and isinstance(self._request.get("uid"), str)
            and 1 <= len(self._request["uid"]) <= _LONGEST_UID
            and isinstance(self._request.get("subResource", ""), str | None)
        )

    def _created(self) -> str:
        if not self._allowed:
            return "denied: pod"
        pod = self._request.get("object")
        spec = _object(_object(pod).get("spec"), None)
        if spec is None:
            raise Violation("a pod without a spec is allowed")
        if self._mirror(spec):
            return "allowed: mirror pod"
        pool = self._pool()
        if pool is None:
            if self._patch is not None:
                raise Violation("a pod is patched in a namespace without a pool")
            return "allowed: pod of no pool"
        after = _object(self._patched().get("spec"))
        if after.get("nodeName") not in (None, ""):
            raise Violation("a pod with a nodeName is allowed in a mapped namespace")
        self._assigned(after, pool, exactly=self._settings.pod_selector == "reject")
        for key in ("nodeSelector", "tolerations"):
            spec, after = _without(spec, key), _without(after, key)
        rest = [_without(_object(one), "spec") for one in (pod, self._patched())]
        if spec != after or rest[0] != rest[1]:
            raise Violation("the patch changes more of the pod than nodeSelector and tolerations")
        return "allowed: pod placed"

    def _updated(self) -> str:
        if not self._allowed:
            return "denied: pod's update"
        if self._patch is not None:
            raise Violation("an update of a pod is patched")
        new, old = (_object(_object(self._request.get(name)).get("spec"), None) for name in ("object", "oldObject"))
        if new is None or old is None:
            raise Violation("an update of a pod without a spec is allowed")
        if (new.get("nodeSelector") or {}) == (old.get("nodeSelector") or {}):
            return "allowed: pod's update"
        pool = self._pool()
        if pool is not None:
            selector = _object(new.get("nodeSelector"))
            if pool.node_selector.items() - {k: v for k, v in selector.items() if isinstance(v, str)}.items():
                raise Violation("an update may change the nodeSelector so that it leaves the pool")
        return "allowed: pod's update within its pool"

    def _pool(self) -> Pool | None:
        """What the pod must get, None where its namespace has no pool. Raises Violation where it cannot be allowed."""
        namespace = self._request.get("namespace")
        if not isinstance(namespace, str) or namespace not in NAMESPACES:
            raise Violation(f"a pod is allowed in namespace {namespace!r}, which nobody knows")
        name = NAMESPACES[namespace].get("labels", {}).get(LABEL, self._settings.default_pool)
        if not name:
            return None
        try:
            return self._settings.assignment(name)
        except KeyError:
            raise Violation(f"a pod is allowed in a namespace of the undeclared pool {name!r}") from None

    def _assigned(self, spec: Mapping[str, Any], pool: Pool, *, exactly: bool) -> None:
        selector = _object(spec.get("nodeSelector"))
        wanted = pool.node_selector
        if {key: selector.get(key) for key in wanted} != wanted or (exactly and selector != wanted):
            raise Violation(f"a pod of a mapped namespace is allowed with nodeSelector {spec.get('nodeSelector')!r}")
        tolerations = spec.get("tolerations")
        for toleration in pool.tolerations:
            if toleration.model_dump(by_alias=True, exclude_none=True) not in (tolerations or []):
                raise Violation(f"a pod is allowed without the pool's tolerations: {tolerations!r}")

    def _mirror(self, spec: Mapping[str, Any]) -> bool:
        """Whether the pod shows a static one that runs already, and the node itself says so."""
        annotations = _object(_object(_object(self._request.get("object")).get("metadata")).get("annotations"))
        user, node = _object(self._request.get("userInfo")), spec.get("nodeName")
        return (
            annotations.get("kubernetes.io/config.mirror", False) is not False
            and "system:nodes" in _list(user.get("groups"))
            and isinstance(node, str)
            and user.get("username") == f"system:node:{node}"
        )

    def _patched(self) -> Any:
        """The object after the patch. Raises Violation."""
        manifest = self._request.get("object")
        if self._patch is None:
            return manifest
        try:
            return jsonpatch.apply_patch(deepcopy(manifest), self._patch)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
            raise Violation(f"the patch does not apply to the object: {error}") from None


def _object(value: Any, other: Any = {}) -> Any:  # noqa: B006 - never changed
    return value if isinstance(value, dict) else other


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _without(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name != key}


def _comparable(text: Any) -> Any:
    """What is no Unicode (half a surrogate pair, broken UTF-8) comes back as U+FFFD, once or several times."""
    return re.sub("[\ud800-\udfff\ufffd]+", "\ufffd", text) if isinstance(text, str) else text
