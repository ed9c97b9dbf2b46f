"""Writes a new policy: its folder, its test, its cases, and each place where a policy is
registered."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fairlead.common import atomic_files
from fairlead.common.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MODULE = """\
# METADATA
# title: {title}
# description: |
#   TODO: what this policy holds, and for which requests. The rules below are an example: replace them.
# schemas:
#   - input: schema.admission_review
package {package}

import data.review

# METADATA
# description: What this intent has to say of the request.
decision := {{"deny": deny, "patch": [], "warn": set()}}

# METADATA
# description: The audit annotation of an admitted request; empty if this intent does not apply.
audit := ""

# METADATA
# description: Why the request is refused.
deny contains sprintf("pod %q has the label %s: remove the label", [review.name, _label]) if {{
	review.kind == ["", "Pod"]
	input.request.object.metadata.labels[_label]
}}

_label := "fairlead.dev/{intent}-example"
"""  # noqa: E501
_TEST = """\
package {package}_test

import data.{package}

_create(labels) := {{"request": {{
	"operation": "CREATE",
	"kind": {{"group": "", "version": "v1", "kind": "Pod"}},
	"object": {{"metadata": {{"name": "web", "labels": labels}}}},
}}}}

test_a_pod_with_the_label_is_refused if {{
	answer := {package}.decision with input as _create({{"fairlead.dev/{intent}-example": "x"}})
	answer == {{
		"deny": {{`pod "web" has the label fairlead.dev/{intent}-example: remove the label`}},
		"patch": [],
		"warn": set(),
	}}
	{package}.audit == ""
}}

test_any_other_pod_is_left_alone if {{
	answer := {package}.decision with input as _create({{"app": "web"}})
	answer == {{"deny": set(), "patch": [], "warn": set()}}
}}
"""
_CASES = """\
# TODO: replace these by cases of the policy: docs/conformance.md.

- name: {intent} refuses a pod with the label of the example
  intent: {intent}
  namespace: {{name: payments, labels: {{agentpool: pool1}}}}
  request:
    operation: CREATE
    object:
      apiVersion: v1
      kind: Pod
      metadata: {{name: web, labels: {{fairlead.dev/{intent}-example: x}}}}
      spec: {{containers: [{{name: c, image: nginx}}]}}
  expect: {{allowed: false, message: fairlead.dev/{intent}-example}}

- name: {intent} leaves any other pod alone
  intent: {intent}
  namespace: {{name: payments, labels: {{agentpool: pool1}}}}
  request:
    operation: CREATE
    object:
      apiVersion: v1
      kind: Pod
      metadata: {{name: web}}
      spec: {{containers: [{{name: c, image: nginx}}]}}
  expect: {{allowed: true, warnings: []}}
"""


def policy(intent: str, checkout: Path) -> list[Path]:
    """Write the policy `intent` into a checkout, and return the files that were written or changed.

    Its package is the name with underscores. Raises UsageError, and then writes nothing, if the
    name is not legal or is taken, or if a file is not in the form that the registrations expect.
    """
    if not _NAME.fullmatch(intent):
        raise UsageError(
            f"{intent!r} cannot name a policy: use lower-case words joined by '-', such as "
            "replica-limits"
        )
    package = intent.replace("-", "_")
    folder = checkout / "policies" / package
    cases = checkout / "testdata" / "cases" / f"{intent}.yaml"
    for path in (folder, cases):
        if path.exists():
            raise UsageError(f"{path} is there already: choose another name, or remove it")
    names = {"intent": intent, "package": package, "title": intent.replace("-", " ").capitalize()}
    texts = {
        folder / f"{package}.rego": _MODULE.format(**names),
        folder / f"{package}_test.rego": _TEST.format(**names),
        cases: _CASES.format(**names),
        **_registrations(intent, package, checkout),
    }
    atomic_files.write_all(texts)
    return list(texts)


def _registrations(intent: str, package: str, checkout: Path) -> dict[Path, str]:
    """Each file that lists the intents, with this one in it."""
    main = checkout / "policies" / "main.rego"
    models = checkout / "tools" / "fairlead" / "settings" / "models.py"
    manifest = checkout / "policies" / ".manifest"
    text = _extended(
        main,
        main.read_text(encoding="utf-8"),
        r"import data\.node_pool\n",
        f"import data.{package}\n",
    )
    imports = re.compile(r"(?:^import data\.\w+\n)+", re.MULTILINE)
    text = imports.sub(
        lambda block: "".join(sorted(block[0].splitlines(keepends=True))), text, count=1
    )
    for rule, attribute in (("_decisions", "decision"), ("_audits", "audit")):
        first_entry = rf'{rule} := {{"node-pool": node_pool\.{attribute}'
        text = _extended(main, text, first_entry, f', "{intent}": {package}.{attribute}')
    roots = json.loads(manifest.read_text(encoding="utf-8"))
    roots["roots"] = sorted({*roots["roots"], package, f"{package}_test"})
    return {
        main: text,
        models: _listed(models, "Intent = Literal[", f'"{intent}"', "]"),
        manifest: json.dumps(roots, indent=2) + "\n",
    }


def _listed(path: Path, before: str, entry: str, after: str) -> str:
    """The file's text with `entry` in the list between `before` and `after`, in order. Raises
    UsageError.
    """
    text = path.read_text(encoding="utf-8")
    place = _place(path, text, f"{re.escape(before)}(.+){re.escape(after)}", before)
    start, end = place.span(1)
    return text[:start] + ", ".join(sorted([*place[1].split(", "), entry])) + text[end:]


def _extended(path: Path, text: str, known: str, addition: str) -> str:
    """`text` with `addition` after the one place where a line begins with the pattern `known`.
    Raises UsageError.
    """
    end = _place(path, text, known, known).end()
    return text[:end] + addition + text[end:]


def _place(path: Path, text: str, pattern: str, shown: str) -> re.Match[str]:
    """The one place where a line begins with `pattern`; errors show it as `shown`. Raises
    UsageError.
    """
    places = list(re.finditer(f"^{pattern}", text, re.MULTILINE))
    if len(places) != 1:
        raise UsageError(
            f"{path}: expected one line that begins with {shown}, and it has {len(places)}"
        )
    return places[0]
