"""The names of modules that OPA's program gets, which know the files that they come from: OPA's
messages name a module, and people look for a file."""

from __future__ import annotations

from pathlib import Path

from fairlead.common import paths


class ModuleName(str):
    """The name of a module, such as its ConfigMap key `node_pool.limits.rego`, that knows its file.

    It stays what it is when mappings of modules are merged, and is a plain text otherwise.
    """

    path: Path
    lines: int

    def __new__(cls, name: str, path: Path, lines: int) -> ModuleName:
        """`path` is the file that messages name, and `lines` the number of its lines: the module
        may have more.
        """
        module_name = super().__new__(cls, name)
        module_name.path, module_name.lines = path, lines
        return module_name

    def renamed(self, name: str) -> ModuleName:
        """Another name for the module of the same file."""
        return ModuleName(name, self.path, self.lines)

    def place(self, row: str | None) -> str:
        """How messages name a row of the module: by file and line."""
        file = paths.shown(self.path)
        return f"{file}:{min(int(row), self.lines)}" if row else file


def shown(name: str) -> str:
    """How messages name a module: by its file, if it has one."""
    return name.place(None) if isinstance(name, ModuleName) else name
