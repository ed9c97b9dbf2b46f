"""`fairlead eval`: show the decision for one AdmissionReview or manifest, or check many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fairlead.admission import asked, evaluate, gate, request_files
from fairlead.admission.evaluate import Answer, Question
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.decisions import gate_report
from fairlead.clusters import registry
from fairlead.common import yaml_files, yaml_texts
from fairlead.common.errors import UsageError
from fairlead.kube import admission_reviews
from fairlead.policy import exceptions, fairlead_yaml


def _findings(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    findings = [word.strip() for value in values for word in value.split(",")]
    for finding in findings:
        if finding not in gate.FINDINGS:
            raise click.BadParameter(f"{finding!r} is not one of {', '.join(gate.FINDINGS)}.")
    return tuple(findings)


@click.command()
@options.manifests
@click.option(
    "--fail-on",
    metavar="FINDING,...",
    multiple=True,
    callback=_findings,
    help="Exit with 1 if any object is refused, warned or changed; repeatable.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    help="The namespace of a manifest that names none.  [default: default]",
)
@click.option(
    "--namespace-labels",
    metavar="K=V,...",
    help="The labels of namespaces that no manifest describes; '' for none.",
)
@click.option(
    "--exclude",
    metavar="GLOB",
    multiple=True,
    help="Leave files and folders below a FOLDER out, such as 'tests/*'; repeatable.",
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
@options.policies
@options.settings
@options.output_in(*out.FORMATS, *gate_report.FORMATS)
def command(
    paths: tuple[Path, ...],
    fail_on: tuple[str, ...],
    namespace: str | None,
    namespace_labels: str | None,
    exclude: tuple[str, ...],
    live: bool,
    target: registry.Target,
    operation: str | None,
    policies_folder: Path | None,
    settings_file: Path | None,
    output: str,
) -> int:
    """Show the decision for a FILE and the reasons, by `opa eval` with the policies of this
    checkout. With --fail-on, several files or a FOLDER: list what is refused or warned about.

    A FILE holds AdmissionReviews or manifests, as JSON or YAML; - is standard input. Of a FOLDER,
    all .yaml, .yml and .json files are read, except hidden ones; what is not a Kubernetes object is
    skipped, and so are Helm templates and what SOPS encrypted. The policies know a namespace by its
    manifest, if it is among the files, or by --namespace-labels or --live.

    OPA decides only on requests that an API server asks it about. For the others, the command says
    "not asked", and why. This follows the webhooks that a deployment would bring. With --live, it
    follows those of the cluster, except for intents that have none there.

    Exit code: 0 for any decision, 1 if an object is as --fail-on says, 2 if a file cannot be
    read or decided on. All others are decided on nevertheless.
    """
    if live and namespace_labels is not None:
        raise UsageError(
            "--live and --namespace-labels both set the namespace's labels: give one of them"
        )
    for path in paths:
        if path != yaml_files.STDIN and not path.exists():
            yaml_files.read_text(path)  # raises: a name that is wrong is no finding
    labels = None if namespace_labels is None else evaluate.parse_labels(namespace_labels)
    is_gate = fail_on or len(paths) > 1 or paths[0].is_dir() or output in gate_report.FORMATS
    if is_gate:
        files = [path for path in paths if path != yaml_files.STDIN]
        fairlead_yaml.require_own(files, settings_file)
    policies = options.load_policies(settings_file, policies_folder)
    cluster = registry.find(target) if live else None
    inputs = request_files.read(
        paths,
        namespace=namespace,
        namespace_labels=labels,
        namespaces=cluster.objects().namespaces() if cluster else None,
        operation=operation,
        exclude=exclude,
        kinds=cluster.objects().kinds() if cluster else (),
        exceptions_=exceptions.of_cluster(cluster.objects()) if cluster else (),
    )
    for pattern in inputs.unfit:
        out.warning(
            f"nothing fits --exclude {pattern!r}: write a path below a folder that is given, from "
            "there or from the working directory, or a name"
        )
    webhooks = asked.foreseen(cluster, policies) if cluster else asked.rendered(policies)
    if is_gate:
        if fairlead_yaml.find(settings_file) is None:
            out.note("settings: none, so the defaults")
        with out.progress() as progress:
            report = gate.check(
                inputs, policies=policies, webhooks=webhooks, fail_on=fail_on, progress=progress
            )
        gate_report.emit(report, output)
        return UsageError.exit_code if report.unreadable else int(report.failed > 0)
    with out.progress() as progress:
        evaluated = evaluate.evaluate(
            inputs, policies=policies, webhooks=webhooks, progress=progress
        )
    data = [_data(answer) for _, answer in evaluated]

    def draw(console: Console) -> None:
        for index, (question, answer) in enumerate(evaluated):
            if index:
                console.print()
            _draw(console, question, answer)

    out.emit(data if len(data) > 1 else data[0], output, draw)
    for request in inputs.requests:
        for remark in request.remarks:
            out.note(f"{request.path}: {remark}")
    return 0


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
    heads = [head for head, _ in lines]
    repeated = zip(lines, [None, *heads], strict=False)
    width = max(9, len(decision) + 2)
    out.fields(
        console, [("" if head == last else head, text) for (head, text), last in repeated], width
    )
    if answer.patch:
        console.print("\nThe object after the patch:\n", soft_wrap=True)
        console.print(yaml_texts.written(answer.object), soft_wrap=True)


def _operation(operation: dict[str, Any]) -> str:
    value = json.dumps(operation["value"], ensure_ascii=False) if "value" in operation else ""
    return f"{operation['op']} {operation['path']} {value}".rstrip()
