"""What stands in real repositories beside manifests: the gate judges all that can be read, and
names the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.decisions.eval import command
from fairlead.inputs import manifest_files

POOL = "--namespace-labels=agentpool=pool1"
BAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad, namespace: shop}\nspec: {nodeName: n1}\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels:
    version: VERSION
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""


def gate(*arguments: str | Path) -> Result:
    words = [*map(str, arguments), "--fail-on", "refused"]
    return CliRunner().invoke(command, words, standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `repo` with a refused pod in its last file."""
    monkeypatch.chdir(tmp_path)
    folder = Path("repo")
    folder.mkdir()
    (folder / "zz.yaml").write_text(BAD)
    return folder


def test_what_cannot_be_read_is_named_and_all_else_is_judged(repository: Path) -> None:
    (repository / "ansible.yaml").write_text("a: [\nb: }\n")
    (repository / "broken.json").write_text('{"apiVersion": "v1",\n "kind": }')
    (repository / "number.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n")
    result = gate(repository, POOL)
    assert result.return_value == 2
    assert "repo/zz.yaml:1: refused: Pod shop/bad" in result.stdout
    assert result.stdout.endswith("1 object in 1 file: 1 refused; not readable: 3\n")
    errors = [line.split(": ")[1] for line in result.stderr.splitlines() if "error: " in line]
    assert errors == ["repo/ansible.yaml:2", "repo/broken.json:2", "repo/number.yaml:3"]


def test_a_document_that_is_no_object_does_not_hide_those_below_it(repository: Path) -> None:
    (repository / "zz.yaml").write_text(f"{{}}\n---\nhello\n---\n{BAD}")
    result = gate(repository / "zz.yaml", POOL)
    assert result.return_value == 2
    assert result.stdout.startswith("repo/zz.yaml:5: refused: Pod shop/bad")
    assert [line.split(": ")[1] for line in result.stderr.splitlines() if "error: " in line] == [
        "repo/zz.yaml:1",
        "repo/zz.yaml:3",
    ]


@pytest.mark.parametrize(
    "annotation",
    [
        'summary: "{{ $labels.instance }} is down"',
        "summary: '{{ $labels.instance }}'",
        "summary: about {{ $labels.instance }}",
        "summary: |\n      {{ $labels.instance }}",
    ],
)
def test_a_text_of_another_template_does_not_hide_a_mistake(
    repository: Path, annotation: str
) -> None:
    (repository / "alert.yaml").write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    {annotation}\n   name: web\n"
    )
    result = gate(repository, POOL)
    assert result.return_value == 2
    assert "error: repo/alert.yaml:" in result.stderr


def test_a_list_without_items_is_called_so(repository: Path) -> None:
    (repository / "zz.yaml").write_text("apiVersion: v1\nkind: List\n")
    result = gate(repository / "zz.yaml", POOL)
    assert "repo/zz.yaml: is a List without items" in result.stderr


def test_a_label_without_a_value_is_an_empty_text_as_for_api_servers(repository: Path) -> None:
    (repository / "zz.yaml").write_text(
        BAD.replace("namespace: shop", "namespace: shop, labels: {team: }").replace("n1", "")
    )
    assert gate(repository, POOL).return_value == 0


def test_files_can_be_left_out(repository: Path) -> None:
    (repository / "tests").mkdir()
    (repository / "tests" / "broken.yaml").write_text("a: [")
    (repository / "vars.yaml").write_text("a: [")
    result = gate(repository, POOL, "--exclude", "tests/*", "--exclude", "vars.yaml")
    assert (result.return_value, "1 object in 1 file: 1 refused\n" in result.stdout) == (1, True)
    assert gate(repository, POOL, "--exclude", "tests").return_value == 2


@pytest.mark.parametrize(
    "pattern",
    [
        *("tests", "tests/", "./tests", "tests/*", "**/tests", "tests/**", "*/bad.yaml"),
        *("repo/tests", "./repo/tests/", "repo/tests/*", "repo/*/bad.yaml", "{folder}/tests"),
    ],
)
@pytest.mark.parametrize("named", ["repo", "repo/", "./repo", "{folder}", "repo/../repo"])
def test_a_pattern_counts_from_the_folder_and_from_the_working_directory(
    repository: Path, pattern: str, named: str
) -> None:
    (repository / "zz.yaml").write_text(DEPLOYMENT)
    (repository / "tests").mkdir()
    (repository / "tests" / "bad.yaml").write_text(BAD)
    folder = repository.absolute()
    reading = manifest_files.read(
        [Path(named.format(folder=folder))], exclude=[pattern.format(folder=folder)]
    )
    assert [document.value["kind"] for document in reading.documents] == ["Deployment"]
    assert reading.unfit == []


def test_a_folder_that_is_named_is_never_left_out_as_a_whole(repository: Path) -> None:
    reading = manifest_files.read([repository], exclude=["repo"])
    assert (len(reading.documents), reading.unfit) == (1, ["repo"])


def test_a_pattern_that_nothing_fits_is_told(repository: Path) -> None:
    (repository / "notes.txt").touch()
    (repository / ".git").mkdir()
    patterns = ("*.txt", ".git", "other/*", "repo/test", "zz.yml")
    result = gate(repository, POOL, *(f"--exclude={pattern}" for pattern in patterns))
    assert result.return_value == 1
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert [line.split("'")[1] for line in warnings] == [*patterns[2:]]
    assert warnings[0].startswith("warning: nothing fits --exclude 'other/*': write a path below")


def test_secrets_of_sops_and_templates_of_helm_are_named_and_judged_by_nobody(
    repository: Path,
) -> None:
    (repository / "secret.sops.yaml").write_text(
        "apiVersion: ENC[AES256_GCM,data:x]\nkind: ENC[AES256_GCM,data:y]\nsops: {version: 3.9.0}\n"
    )
    (repository / "chart" / "templates").mkdir(parents=True)
    (repository / "chart" / "Chart.yaml").write_text("name: chart\n")
    (repository / "chart" / "templates" / "pod.yaml").write_text(BAD)
    (repository / "loose.yaml").write_text("{{- if .Values.on }}\nkind: Pod\n{{- end }}\n")
    (repository / "quoted.yaml").write_text(BAD.replace("bad", '"{{ name }}"'))
    result = gate(repository, POOL)
    assert result.return_value == 1
    assert result.stdout.splitlines()[-1] == (
        "1 object in 1 file: 1 refused; skipped, as no Kubernetes objects: 1; "
        "skipped, as encrypted by SOPS: 1; skipped, as Helm templates: 3"
    )


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.0+2", "'1.0+2' is not a label value"),
        ("81111e1", "811110 is not a label value: quote it"),
        ("0340914", "340914 is not a label value: quote it"),
        ("y", "true is not a label value: quote it"),
        ("[a]", '["a"] is not a label value: write text'),
        ("${APP_VERSION}", "'${APP_VERSION}' is a variable: name the manifests with its value"),
        ("'{{ v }}'", "'{{ v }}' is of a template: name what Helm or Jinja2 makes of it"),
    ],
)
def test_a_label_that_no_api_server_takes_refuses_its_object(
    repository: Path, version: str, reason: str
) -> None:
    (repository / "app.yaml").write_text(DEPLOYMENT.replace("VERSION", version))
    result = gate(repository, POOL)
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith(
        "repo/app.yaml:1: refused: Deployment shop/web: an API server does not accept it: "
        f"metadata.labels: {reason}"
    )
    assert second.startswith("repo/zz.yaml:1: refused")
    assert result.return_value == 1


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_variable_in_a_node_selector_refuses_its_object(repository: Path, kind: str) -> None:
    spec = "nodeSelector: {agentpool: '${POOL}'}, containers: [{name: c, image: i}]"
    spec = spec if kind == "Pod" else f"template: {{spec: {{{spec}}}}}"
    version = "v1" if kind == "Pod" else "apps/v1"
    (repository / "app.yaml").write_text(
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web, namespace: shop}}\n"
        f"spec: {{{spec}}}\n"
    )
    path = "spec.nodeSelector" if kind == "Pod" else "spec.template.spec.nodeSelector"
    assert gate(repository, POOL).stdout.startswith(
        f"repo/app.yaml:1: refused: {kind} shop/web: an API server does not accept it: {path}: "
        "'${POOL}' is a variable: name the manifests with its value"
    )


@pytest.mark.parametrize(
    ("key", "value"), [("kind", "${KIND}"), ("kind", "'{{ kind }}'"), ("apiVersion", "${GROUP}/v1")]
)
def test_an_object_whose_kind_is_a_variable_is_refused(
    repository: Path, key: str, value: str
) -> None:
    lines = {"apiVersion": "v1", "kind": "Service", key: value}
    text = "\n".join(f"{name}: {word}" for name, word in lines.items())
    (repository / "app.yaml").write_text(f"{text}\nmetadata: {{name: a, namespace: shop}}\n")
    first, *_ = gate(repository / "app.yaml", POOL).stdout.splitlines()
    word = value.strip("'")
    assert f"an API server does not accept it: {key}: '{word}' is " in first


@pytest.mark.parametrize(
    "text", ["{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", "{% if on %}\na: b\n{% endif %}\n"]
)
def test_a_template_that_is_named_as_a_file_is_told_so(repository: Path, text: str) -> None:
    (repository / "app.yaml").write_text(text)
    result = gate(repository / "app.yaml", POOL)
    assert result.return_value == 2
    assert "it looks like a template: name what Helm or Jinja2 makes of it" in result.stderr


CUSTOM = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, annotations: {%s}}\n"
PODS = """\
apiVersion: {}
kind: {}
metadata: {{name: web, namespace: shop}}
spec: {}{{metadata: {{labels: {{version: {}}}}}, spec: {{containers: [{{name: c, image: x}}]}}}}{}
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CUSTOM % "scrape: true", "metadata.annotations: true is not text: quote it"),
        (CUSTOM % "port: 8080", "metadata.annotations: 8080 is not text: quote it"),
        (CUSTOM % "list: [a]", 'metadata.annotations: ["a"] is not text: write text'),
        (
            PODS.format("apps/v1", "DaemonSet", "{template: ", "1.0+2", "}"),
            "spec.template.metadata.labels: '1.0+2' is not a label value",
        ),
        (
            PODS.format("batch/v1", "CronJob", "{jobTemplate: {spec: {template: ", "1.10", "}}}"),
            "spec.jobTemplate.spec.template.metadata.labels: 1.1 is not a label value: quote it",
        ),
    ],
)
def test_so_does_an_annotation_or_a_label_of_its_pods(
    repository: Path, text: str, reason: str
) -> None:
    (repository / "app.yaml").write_text(text)
    result = gate(repository, POOL)
    refusal = next(text for text in result.stdout.splitlines() if "repo/app.yaml" in text)
    assert refusal.startswith("repo/app.yaml:1: refused: ")
    assert f"an API server does not accept it: {reason}" in refusal
    assert result.return_value == 1


@pytest.mark.parametrize("annotations", ["", "a: ", "a: null, b: 'true'"])
def test_an_empty_annotation_is_text(repository: Path, annotations: str) -> None:
    (repository / "app.yaml").write_text(CUSTOM % annotations)
    assert "repo/app.yaml" not in gate(repository, POOL).stdout


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("name: web\n", "name: ${NAME}\n", "metadata.name: '${NAME}' is a variable: name the man"),
        ("namespace: shop", "namespace: ${NS}", "metadata.namespace: '${NS}' is a variable"),
        (
            "spec:\n",
            "spec:\n  replicas: ${REPLICAS:=2}\n",
            "; it has variables (${REPLICAS}): name the manifests with their values",
        ),
    ],
)
def test_a_variable_is_named_where_no_api_server_takes_it(
    repository: Path, before: str, after: str, reason: str
) -> None:
    text = DEPLOYMENT.replace("VERSION", "v1").replace(before, after, 1)
    (repository / "app.yaml").write_text(text)
    first, *_ = gate(repository, POOL).stdout.splitlines()
    assert first.startswith("repo/app.yaml:1: refused: Deployment ")
    assert reason in first


def test_variables_that_a_shell_replaces_are_no_mistake(repository: Path) -> None:
    (repository / "zz.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\ndata: {run: 'echo ${HOME}'}\n"
    )
    assert gate(repository, POOL).return_value == 0


@pytest.mark.parametrize("values", ["[22:30]", "['22:30']"])
def test_a_time_of_day_is_text(repository: Path, values: str) -> None:
    (repository / "zz.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: night, namespace: shop}\n"
        f"spec: {{containers: [{{name: a, image: a, args: {values}}}]}}\n"
    )
    assert gate(repository, POOL).return_value == 0


def test_nothing_of_a_file_steers_a_terminal_or_a_ci_server(repository: Path) -> None:
    (repository / "zz.yaml").write_text(
        BAD.replace("name: bad", 'name: "x\\e[31m"').replace("n1", '"n\\r\\n::error::forged"')
    )
    forged = repository / "b\n::error::bad.yaml"
    forged.write_text("a: [")
    result = gate(repository, POOL)
    written = result.stdout + result.stderr
    assert "\x1b" not in written
    assert not [line for line in written.splitlines() if line.startswith("::")]
