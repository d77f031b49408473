"""Which module imports which, read from the sources without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Imports = Mapping[str, frozenset[str]]
"""Module -> every absolute name that it imports, wherever in the file the import stands."""


def read_imports(source_root: Path) -> Imports:
    """Every module below a directory that is on sys.path."""
    found = {}
    for file in sorted(source_root.rglob("*.py")):
        words = file.relative_to(source_root).with_suffix("").parts
        is_package = words[-1] == "__init__"
        module = ".".join(words[:-1] if is_package else words)
        package = module if is_package else module.rpartition(".")[0]
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        found[module] = frozenset(_imported_names(tree, package))
    assert found, f"there are no modules below {source_root}"
    return found


def is_within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def importers(imports: Imports, packages: Iterable[str]) -> set[str]:
    """The modules that import any of these packages or something inside them."""
    wanted = tuple(packages)
    return {module for module, names in imports.items() if any(is_within(name, wanted) for name in names)}


def offences(imports: Imports, *, within: Iterable[str], forbidden: Iterable[str]) -> set[tuple[str, str]]:
    """Chains that should not be: (module inside `within`, forbidden name that it reaches, directly or through ours)."""
    inside, never = tuple(within), tuple(forbidden)
    return {
        (module, name)
        for module in imports
        if is_within(module, inside)
        for name in _reached(imports, module)
        if is_within(name, never)
    }


def _reached(imports: Imports, module: str) -> set[str]:
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        for name in imports.get(waiting.pop(), frozenset()) - reached:
            reached.add(name)
            waiting.append(name)
    return reached


def _imported_names(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
                base = ".".join(word for word in (above, module) if word)
                yield base
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name
