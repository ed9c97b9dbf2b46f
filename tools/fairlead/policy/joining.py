"""Joins the modules of a package into one.

OPA compiles all of its policies twice for each module that it loads or unloads, so a push takes as
long as it has modules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fairlead.policy.revision import PACKAGE, STAGE

_IMPORT = re.compile(r"import \S*?(\w+)(?: as (\w+))?")
_NO_CODE = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|#.*')
_UNREADABLE = re.compile(r"^import |(?:^|[\s(\[{,:=])\$[\"`]", re.MULTILINE)
"""An import among the rules, or a text with names in it (`$"{x}"`): the module stays as it is."""
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@dataclass(frozen=True)
class _Module:
    """The parts of a formatted module: all up to its package's name, its imports by the name that
    they give, and its rules.
    """

    head: str
    package: str
    imports: Mapping[str, str]
    rules: str


def join(modules: Mapping[str, str]) -> dict[str, str]:
    """The modules (key -> text, as `opa fmt` formats it, with a package) with one module for each
    package, named like the package: `node_pool.node_pool.rego`. What stands above `package` in
    other modules is left out; their rules keep their comments.

    A package stays as it is if it has no module of that name, or if a name that one of its modules
    imports stands for something else in another one.
    """
    packages: dict[str, dict[str, _Module]] = defaultdict(dict)
    for key, text in sorted(modules.items()):
        module = _parsed(text)
        packages[STAGE.sub("", module.package)][key] = module
    joined: dict[str, str] = {}
    for name, package in packages.items():
        main = f"{name}.{name.rpartition('.')[2]}.rego"
        side_modules = [module for key, module in package.items() if key != main]
        if main in package and side_modules and _go_together(package.values()):
            joined[main] = _joined(package[main], side_modules)
        else:
            joined |= {key: modules[key] for key in package}
    return joined


def _go_together(modules: Collection[_Module]) -> bool:
    """Whether each name means the same if all modules have the imports of all."""
    imports = {name: line for module in modules for name, line in module.imports.items()}
    return all(
        not _UNREADABLE.search(module.rules)
        and all(
            module.imports.get(name) == imports[name] for name in _names(module) & imports.keys()
        )
        for module in modules
    )


def _joined(main: _Module, side_modules: Sequence[_Module]) -> str:
    modules = (main, *side_modules)
    imports = sorted({line for module in modules for line in module.imports.values()})
    rules = [module.rules for module in modules]
    return "\n\n".join(filter(None, [main.head, "\n".join(imports), *rules])) + "\n"


def _parsed(text: str) -> _Module:
    """The parts of a module. An import of another form, or below a comment, is left among the
    rules.
    """
    package = PACKAGE.search(text)
    assert package is not None  # noqa: S101 - staging refuses a module without one
    imports: dict[str, str] = {}
    lines = text[package.end() :].split("\n")
    while lines:
        imported = _IMPORT.fullmatch(lines[0])
        if imported:
            imports[imported[2] or imported[1]] = lines[0]
        elif lines[0]:
            break
        del lines[0]
    return _Module(text[: package.end()], package[1], imports, "\n".join(lines).strip("\n"))


def _names(module: _Module) -> set[str]:
    """All words that may be names: not those in texts and comments, nor the fields of objects."""
    return set(_NAME.findall(_NO_CODE.sub(" ", module.rules)))
