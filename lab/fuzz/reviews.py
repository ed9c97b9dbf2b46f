"""Fuzzes OPA with malformed AdmissionReviews, and checks that no pod is admitted unplaced.

The oracle is written from the contract (docs/node-pool.md), not from the policies:
- A body that is JSON and not too large gets 200 and an AdmissionReview v1 that an API server
  accepts; other bodies get 400. OPA 1.22 answers numbers like 1e999999999, which no API server
  sends, with 500, which an API server treats as a refusal. An answer has the request's uid. If the
  uid is missing, too long or not a string, the answer's uid is empty and the request is denied, and
  so is every review whose request is unclear.
- Decisions follow the contract: see lab.fuzz.judgement.
- OPA stays the same process, within the memory limit of its deployment.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.common import paths, yaml_files
from fairlead.common.progress import Progress
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.policy import staging
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Pool, Settings, Toleration
from lab.fuzz import limits
from lab.fuzz.client import Http1, Response
from lab.fuzz.judgement import Judgement, Number, as_list, as_object
from lab.fuzz.review_bodies import LABEL, NAMESPACES, Body, bodies, shallow
from lab.fuzz.search import Search, Violation, search
from lab.fuzz.server import Opa, running

EXAMPLES = 50_000
FOLDER = "testdata/fuzz/reviews"
"""Bodies that were once answered wrongly, or might be. Each run sends them first."""

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
"""The settings that are fuzzed, one after the other."""


def run(
    *,
    examples: int = EXAMPLES,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    spoil: Callable[[Bundle], Bundle] = lambda bundle: bundle,
) -> dict[str, Any]:
    """Fuzz several OPAs, each with one of PROFILES. Returns Search.result with the peak `memory`
    (see load.py).

    `policies` is a folder; `spoil` changes the bundle before it is loaded.
    """
    began = time.monotonic()
    totals: Search[Body] = Search()
    memory = 0
    for name, settings in PROFILES.items():
        bundle = spoil(staging.stage(PolicySet.load(settings, policies).bundle, progress))
        data = {
            "kubernetes/namespaces": {
                name: {"metadata": {"name": name, **part}} for name, part in NAMESPACES.items()
            }
        }
        environment = limits.go_environment(settings)
        with (
            tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder,
            running(Opa(Path(folder), bundle=bundle, data=data, environment=environment)) as opa,
        ):
            target = _Target(opa, settings)
            try:
                target.check_samples()
                totals.try_known(
                    map(Body.load, sorted((paths.root() / FOLDER).glob("*.json"))), target.check
                )
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
                memory = max(memory, limits.peak(opa.pid))
            except Violation as violation:
                totals.why = totals.why or str(violation)
            finally:
                target.close()
        if totals.why:
            break
    return totals.result("reviews", seed, began, Body.document, memory={"opa": memory})


class _Target:
    """The OPA under test."""

    def __init__(self, opa: Opa, settings: Settings) -> None:
        self._opa = opa
        self._settings = settings
        self._pid = opa.pid
        self._client = Http1(opa.address, opa.ca)
        self._limit = limits.deployed(settings)["opa"]

    def close(self) -> None:
        self._client.close()

    def check_samples(self) -> None:
        """Raises Violation if the sample review is not decided correctly. Then further examples
        would show nothing.
        """
        sample = yaml_files.read_json(paths.root() / "testdata" / "review.json")
        if (outcome := self.check(Body(json.dumps(sample).encode()))) != "allowed: pod placed":
            raise Violation(f"the sample review is not placed, but {outcome}")

    def check(self, body: Body) -> str:
        """The outcome of one body. Raises Violation if the answer is wrong."""
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
        peak = limits.peak(self._opa.pid)
        if peak > self._limit:
            self._opa.stop()
            self._opa.start()
            self._pid = self._opa.pid
            raise Violation(
                f"OPA took {peak >> 20} MiB of memory, and has a limit of {self._limit >> 20}"
            )
        return judge(body, answer, self._settings)


def judge(body: Body, answer: Response | None, settings: Settings) -> str:
    """The outcome of the answer to `body`. Raises Violation if it is wrong."""
    document = _read(body)
    if answer is None:
        # OPA answers early and closes the connection, which may break while the body is still sent.
        if len(body.content) > LARGEST_REVIEW:
            return "400: not JSON, or too large"
        if body.encoding and isinstance(document, _NoJson):  # see lab.fuzz.guard
            return "no answer to gzip that is none"
        raise Violation("the connection was ended without an answer")
    if answer.status == 400:
        if (
            isinstance(document, _NoJson)
            or body.type != Body.type
            or len(body.content) > LARGEST_REVIEW
        ):
            return "400: not JSON, or too large"
        raise Violation(f"JSON is answered with 400: {answer.body[:300]!r}")
    if answer.status == 500 and b"number too big" in answer.body and _EXPONENT.search(body.content):
        return "500: a number too big"
    if answer.status != 200:
        raise Violation(f"answered with {answer.status}: {answer.body[:300]!r}")
    response = _response(answer.body)
    try:
        return Judgement(
            None if isinstance(document, _NoJson) else document, response, settings
        ).outcome()
    except Violation as violation:
        raise Violation(
            f"{violation}; the answer: {answer.body[:600].decode(errors='replace')}"
        ) from None


_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{4}")


class _NoJson:
    """Stands for a body that is not JSON."""


def _read(body: Body) -> Any:
    content = body.content
    if "gzip" in body.encoding:
        try:
            unpacked = zlib.decompressobj(wbits=31)
            content = unpacked.decompress(content, 2)
            # API servers send none: see fairlead.opa.containers
            if len(content) > 1 or not unpacked.eof or unpacked.unused_data:
                return _NoJson()
        except zlib.error:
            return _NoJson()
    if len(content) > LARGEST_REVIEW:
        return _NoJson()
    text = shallow(content.decode("utf-8", errors="replace"))
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NoJson()


def _refuse(_name: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")


def _response(content: bytes) -> Any:
    """The response of an AdmissionReview v1, with the checks that an API server makes.

    Source: Kubernetes, pkg/admission/plugin/webhook/request (VerifyAdmissionResponse), and
    admission/v1 types.
    """
    try:
        answer = json.loads(content)
    except ValueError:
        raise Violation(f"answered with something that is not JSON: {content[:300]!r}") from None
    wrong = ""
    if not isinstance(answer, dict) or answer.keys() != {"apiVersion", "kind", "response"}:
        raise Violation(f"answered with something else than a review: {content[:300]!r}")
    response = answer["response"]
    if (answer["apiVersion"], answer["kind"]) != ("admission.k8s.io/v1", "AdmissionReview"):
        wrong = "its apiVersion or kind is not a review's"
    elif not isinstance(response, dict) or not isinstance(response.get("uid"), str):
        wrong = "it has no response with a uid"
    elif not isinstance(response.get("allowed"), bool):
        wrong = "its `allowed` is not a truth value"
    elif response.keys() - {
        "uid",
        "allowed",
        "patch",
        "patchType",
        "status",
        "warnings",
        "auditAnnotations",
    }:
        wrong = "its response has unknown fields"
    elif ("patch" in response) != (response.get("patchType") == "JSONPatch"):
        wrong = "it has a patch without a patchType, or the other way round"
    elif "patch" in response and not response["allowed"]:
        wrong = "it has a patch for what it denies"
    elif not all(isinstance(text, str) and text for text in as_list(response.get("warnings", []))):
        wrong = "its warnings are not all text"
    elif not all(
        isinstance(text, str) for text in as_object(response.get("auditAnnotations", {})).values()
    ):
        wrong = "its audit annotations are not all text"
    elif not response["allowed"] and not as_object(response.get("status")).get("message"):
        wrong = "it denies without a message"
    elif not isinstance(as_object(response.get("status", {})).get("code", 0), int):
        wrong = "its status code is not a number"
    if wrong:
        raise Violation(
            f"answered with no valid review, as {wrong}: {content[:600].decode(errors='replace')}"
        )
    return response
