"""What the architecture tests read: the package's files as text and as syntax trees."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"


def modules(folder: str = ".") -> list[Path]:
    """Python files below a folder of the package, as paths relative to the package."""
    return sorted(path.relative_to(PACKAGE) for path in (PACKAGE / folder).rglob("*.py"))


@cache
def read(module: Path) -> str:
    return (PACKAGE / module).read_text()


def findings(check: Callable[[str, Path], Iterable[str]], folder: str = ".", *, outside: str = "") -> list[str]:
    """Return what `check` finds in the modules below `folder`, except those below `outside`.

    One test per rule walks all modules: a test per module and rule would be thousands.
    """
    chosen = [module for module in modules(folder) if module.parts[0] != outside]
    assert chosen, f"no modules below {folder}"
    return [finding for module in chosen for finding in check(read(module), module)]


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Everything in the syntax tree of a module; many tests look at the same one."""
    return tuple(ast.walk(ast.parse(text)))


def imports(text: str, module: Path) -> Iterator[str]:
    """Dotted names that a module imports, relative ones resolved: `from ..store import api` → `holdfast.store.api`."""
    package = ("holdfast", *module.parent.parts)
    for node in nodes(text):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def called(node: ast.AST) -> str:
    """The dotted name a call goes to (`yaml.load`), or nothing for what is not a plain call."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def literals(text: str) -> Iterator[tuple[int, str]]:
    """String literals and the fixed parts of f-strings, with their lines; docstrings are prose and left out."""
    prose = {id(node.value) for node in nodes(text) if isinstance(node, ast.Expr)}
    for node in nodes(text):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
