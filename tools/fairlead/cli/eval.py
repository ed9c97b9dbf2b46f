"""`fairlead eval`: show the decision for one AdmissionReview or manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console

from fairlead.analysis import asked, evaluate
from fairlead.analysis.evaluate import Answer, Question
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.kube import admission_reviews
from fairlead.settings import loading


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--namespace",
    metavar="NAME",
    help="The namespace of a manifest that names none.  [default: default]",
)
@click.option(
    "--namespace-labels", metavar="K=V,...", help="The labels of the namespace; '' for none."
)
@click.option(
    "--live",
    is_flag=True,
    help="Read namespaces and webhooks from the cluster that the next options choose.",
)
@options.cluster
@click.option(
    "--operation",
    type=click.Choice(admission_reviews.OPERATIONS),
    help="The operation on the manifest.  [default: CREATE]",
)
@options.settings
@options.output
def command(
    file: Path,
    namespace: str | None,
    namespace_labels: str | None,
    live: bool,
    target: registry.Target,
    operation: str | None,
    settings_file: Path | None,
    output: str,
) -> None:
    """Show the decision for FILE and the reasons, by `opa eval` with the policies of this checkout.

    FILE is an AdmissionReview or a manifest, as JSON or YAML. Several documents get a list of
    decisions. The policies know the namespace only by --namespace-labels or --live.

    OPA decides only on requests that an API server asks it about. For the others, the command says
    "not asked", and why. This follows the webhooks of the cluster with --live, otherwise those that
    a deployment would bring.

    Exit code: 0 for any decision, 2 if FILE cannot be decided on.
    """
    if live and namespace_labels is not None:
        raise UsageError(
            "--live and --namespace-labels both set the namespace's labels: give one of them"
        )
    labels = None if namespace_labels is None else evaluate.parse_labels(namespace_labels)
    settings = loading.load(settings_file)
    cluster = registry.find(target) if live else None
    with out.progress() as progress:
        evaluated = evaluate.evaluate(
            file,
            settings=settings,
            namespace=namespace,
            namespace_labels=labels,
            namespaces=cluster.namespaces() if cluster else None,
            webhooks=asked.of_cluster(cluster, settings) if cluster else None,
            operation=operation,
            progress=progress,
        )
    data = [_data(answer) for _, answer in evaluated]

    def draw(console: Console) -> None:
        for index, (question, answer) in enumerate(evaluated):
            if index:
                console.print()
            _draw(console, question, answer)

    out.emit(data if len(data) > 1 else data[0], output, draw)


def _data(answer: Answer) -> dict[str, Any]:
    return {
        "asked": answer.asked,
        "reason": answer.reason,
        "allowed": answer.allowed,
        "message": answer.message,
        "warnings": list(answer.warnings),
        "patch": list(answer.patch),
        "object": answer.object,
        "explanation": list(answer.explanation),
        "review": answer.review,
    }


def _draw(console: Console, question: Question, answer: Answer) -> None:
    decision = "allowed" if answer.allowed else "refused"
    if answer.allowed and not answer.asked:
        decision = "not asked"
    lines = [(decision, admission_reviews.title(question.review))]
    lines += [("message", answer.message)] if answer.message else []
    lines += [("because", answer.reason)] if answer.reason not in ("", answer.message) else []
    lines += [("warning", warning) for warning in answer.warnings]
    lines += [("patch", _operation(operation)) for operation in answer.patch]
    lines += [("because", sentence) for sentence in answer.explanation]
    last = None
    for head, text in lines:
        width = max(9, len(decision) + 2)
        console.print(f"{'' if head == last else head:<{width}}{text}", soft_wrap=True)
        last = head
    if answer.patch:
        console.print("\nThe object after the patch:\n", soft_wrap=True)
        console.print(
            yaml.safe_dump(answer.object, sort_keys=False, allow_unicode=True), soft_wrap=True
        )


def _operation(operation: dict[str, Any]) -> str:
    value = json.dumps(operation["value"], ensure_ascii=False) if "value" in operation else ""
    return f"{operation['op']} {operation['path']} {value}".rstrip()
