"""The intents: a folder of policies holds one folder for each, named like its package, with
`<package>.rego` and `intent.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as SchemaError
from jsonschema.exceptions import best_match
from pydantic import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from fairlead.common import mistakes, paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.mistakes import Mistake
from fairlead.policy import intent_file, metadata, references
from fairlead.policy.intent_file import FILE, Facts
from fairlead.policy.requests import Request
from fairlead.settings.first_webhooks import FIRST_WEBHOOKS
from fairlead.settings.services import SERVICES

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
# The names of an intent are labels and annotations of Kubernetes, of 63 characters.
_LONGEST = 63
_NOTHING: Mapping[Path, str] = MappingProxyType({})
_TAKEN = {
    *("data", "input", "fairlead_confirmed", "kubernetes", "system"),
    *(service.root for service in SERVICES),
    *("as", "contains", "default", "else", "every", "false", "if", "import", "in", "not", "null"),
    *("package", "some", "true", "with"),
}


@dataclass(frozen=True)
class Intent:
    """An intent: its name, the title and the description of its Rego, and the facts of its
    intent.yaml. `source` is that file, or in a cluster the key of its module, and `text` what it
    says.
    """

    name: str
    title: str
    description: str
    facts: Facts
    source: str
    text: str = field(repr=False)
    document: yaml_files.Document = field(compare=False, repr=False)

    @property
    def package(self) -> str:
        """The name of its package and its folder."""
        return self.name.replace("-", "_")

    @property
    def module(self) -> Path:
        """The file with its Rego."""
        return Path(self.source).with_name(f"{self.package}.rego")

    def line(self, location: mistakes.Location) -> int | None:
        """The line in `source` where the part at `location` stands."""
        return self.document.line(location)

    def parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that were given, with the defaults of their schema. Raises ValueError that
        names the first mistake.
        """
        problems = self.problems(values)
        if problems:
            raise ValueError(problems[0].text)
        return dict(_with_defaults(self.facts.parameters_schema, dict(values)))

    def problems(self, values: Mapping[str, Any]) -> list[Mistake]:
        """What is wrong with parameters; locations begin with `parameters`."""
        parameters = _with_defaults(self.facts.parameters_schema, dict(values))
        # With a registry of its own, jsonschema fetches no schema from elsewhere.
        validator = Draft202012Validator(self.facts.parameters_schema, registry=Registry())
        try:
            errors = sorted(
                validator.iter_errors(parameters), key=lambda error: str(error.absolute_path)
            )
        except (Unresolvable, RecursionError) as error:
            text = (
                f"their schema in {self.source} refers to another one that is not in it ({error})"
            )
            return [Mistake(("parameters",), f"parameters: {text}")]
        problems = []
        for violation in errors:
            details = best_match([violation])
            location = ("parameters", *details.absolute_path)
            for key, text in _worded(details):
                problems.append(Mistake((*location, *key), f"{mistakes.path(location)}: {text}"))
        return problems

    def example(self) -> dict[str, Any]:
        """Parameters with which the intent can be in force: for those without a default, the first
        of their examples. Raises InputError if they do not satisfy the schema.
        """
        properties = self.facts.parameters.get("properties", {})
        values = {
            name: schema["examples"][0]
            for name, schema in properties.items()
            if "default" not in schema and schema.get("examples")
        }
        try:
            return self.parameters(values)
        except ValueError as error:
            message = f"the defaults and examples of {error}"
            line = self.line(("parameters",))
            raise InputError(self.source, message, line=line) from error

    def requests(self, settings: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Request]:
        """The requests that it has a say in, under these settings. Raises InputError."""
        names = {"settings": settings, "parameters": parameters}
        requests = []
        for index, request in enumerate(self.facts.requests):
            # Without warnings: a reference may stand in place of a kind.
            written = request.model_dump(by_alias=True, warnings=False)
            if not references.applies(written, names):
                continue
            document = references.in_force(written, names)
            try:
                requests.append(Request.model_validate(document))
            except ValidationError as error:
                problem = mistakes.of(error, Request, document)[0].text
                raise InputError(
                    self.source,
                    f"requests[{index}], with these settings: {problem}",
                    line=self.line(("requests", index)),
                ) from error
        return requests


def _worded(violation: SchemaError) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong, with the key if it is one that the schema does not have."""
    if violation.validator != "additionalProperties" or violation.validator_value is not False:
        yield (), violation.message
        return
    known = violation.schema.get("properties", {})
    for key in violation.instance:
        if key not in known:
            yield (key,), f"unknown key {key!r}: {mistakes.instead_of(key, known)}"


def of_folder(folder: Path, modules: Mapping[Path, str] = _NOTHING) -> Intent | None:
    """The intent whose folder this is; None for other folders of policies, such as libraries.
    `modules` are those that were read already. Raises InputError.
    """
    path, module = folder / FILE, folder / f"{folder.name}.rego"
    text = modules.get(module) or (yaml_files.read_text(module) if module.is_file() else "")
    described = metadata.of(text, module)
    custom = described.annotations.get("custom") if described else None
    if isinstance(custom, dict) and "requests" in custom:
        raise InputError(
            module,
            f"its METADATA have custom.requests, which {FILE} beside it has now: run `fairlead new "
            f"intent-file {paths.shown(folder)}`, which moves them",
            line=described.line if described else None,
        )
    if not path.is_file():
        return None
    if not module.is_file():
        raise InputError(path, f"is about no policy: there is no {module.name} beside it")
    if problem := name_problem(folder.name):
        raise InputError(path, problem)
    return described_by(folder.name, described, yaml_files.read_text(path), str(path))


def in_folder(folder: Path, modules: Mapping[Path, str] = _NOTHING) -> list[Intent]:
    """The intents of a folder of policies, by name. Arguments and errors as `of_folder`."""
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir())
    return [intent for path in subfolders if (intent := of_folder(path, modules))]


def described_by(
    package: str, described: metadata.PackageMetadata | None, text: str, source: str
) -> Intent:
    """The intent of a package, by the METADATA of its Rego and the text with its facts. Raises
    InputError.
    """
    document, *others = yaml_files.parse_yaml(text, Path(source))
    if others:
        raise InputError(source, "holds more than one document", line=others[0].line(()))
    return Intent(
        name=package.replace("_", "-"),
        title=described.title if described else "",
        description=described.description if described else "",
        facts=intent_file.read(document),
        source=source,
        text=text,
        document=document,
    )


def builtin_folder() -> Path:
    """The folder of the project's own policies."""
    return paths.root() / "policies"


def name_problem(package: str) -> str | None:
    """Why no policy can have this package, and so a folder of this name; None if it can."""
    if not _NAME.fullmatch(package):
        return (
            f"{package!r} cannot name a policy: use lower-case words joined by '_', such as "
            "replica_limits"
        )
    if len(package) > _LONGEST:
        return f"the name has {len(package)} characters: choose one of at most {_LONGEST}"
    if package in _TAKEN:
        return f"{package!r} has a meaning of its own in Rego or in OPA's data: choose another name"
    if package.replace("_", "-") in FIRST_WEBHOOKS:
        return f"{package!r} is the name of something of Fairlead's own: choose another one"
    return None


def _with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """`value` with the defaults of the properties that it lacks."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_with_defaults(items, item) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    filled = {
        name: property_["default"]
        for name, property_ in properties.items()
        if isinstance(property_, dict) and "default" in property_
    } | value
    return {name: _with_defaults(properties.get(name, {}), part) for name, part in filled.items()}
