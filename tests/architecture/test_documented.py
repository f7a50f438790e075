"""Everything a user can name is explained where it stands and mentioned in the reference."""

import inspect
import re
from collections.abc import Iterable

from tests.architecture.source import ROOT
from tests.client_names import namespaces, public_methods

REFERENCE = ROOT / "docs" / "reference"

FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`[^`\n]+`")


def unmentioned(names: Iterable[str], markdown: str) -> list[str]:
    """Names that no code in the text contains, be it a block or a `word`: prose alone does not document a name."""
    blocks = FENCED.findall(markdown)
    spans = INLINE.findall(FENCED.sub("", markdown))
    words = set(re.findall(r"\w+", "\n".join([*blocks, *spans])))
    return sorted(set(names) - words)


def unexplained(things: dict[str, object]) -> list[str]:
    """Names of classes and functions without a docstring of their own."""
    return sorted(name for name, thing in things.items() if explainable(thing) and not own_docstring(thing))


def explainable(thing: object) -> bool:
    return inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, property)


def own_docstring(thing: object) -> str | None:
    return thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__


def reference() -> str:
    return "\n".join(page.read_text() for page in sorted(REFERENCE.glob("**/*.md")))


def public_names() -> dict[str, object]:
    import holdfast

    return {name: getattr(holdfast, name) for name in holdfast.__all__}


def client_methods() -> dict[str, object]:
    from holdfast import Holdfast

    return {name: member for name, member in inspect.getmembers_static(Holdfast) if not name.startswith("_")}


def namespace_methods() -> dict[str, object]:
    """By the names that users write: `queues.pause`."""
    return {name: method for name, method in public_methods().items() if "." in name}


def errors() -> dict[str, object]:
    from holdfast import errors

    return {
        name: thing
        for name, thing in vars(errors).items()
        if inspect.isclass(thing) and issubclass(thing, Exception) and thing.__module__ == errors.__name__
    }


def queue_keywords() -> list[str]:
    from holdfast import Holdfast
    from holdfast.core.queue import QueueSettings

    named = inspect.signature(Holdfast.queue).parameters
    return [*(name for name in named if name not in ("self", "settings")), *QueueSettings.__annotations__]


def test_public_names_are_documented() -> None:
    assert unexplained(public_names()) == []
    assert unmentioned(public_names(), reference()) == []


def test_client_methods_are_documented() -> None:
    assert unexplained(client_methods()) == []
    assert unmentioned(client_methods(), reference()) == []


def test_namespaces_are_documented() -> None:
    assert len(namespace_methods()) > 50
    assert unexplained({**namespaces(), **namespace_methods()}) == []
    spans = set(re.findall(r"hf\.(\w+\.\w+)", reference()))
    assert sorted(namespace_methods().keys() - spans) == []


def test_errors_are_documented() -> None:
    assert errors()
    assert unexplained(errors()) == []
    assert unmentioned(errors(), reference()) == []


def test_queue_settings_are_documented() -> None:
    assert unmentioned(queue_keywords(), reference()) == []


def test_a_missing_mention_is_caught() -> None:
    page = "The lease is `lease=30`.\n\n```python\nhf.queue('a', backoff='1s')\n```\nAlso owner.\n"
    assert unmentioned(["lease", "backoff", "owner"], page) == ["owner"]


def test_a_missing_docstring_is_caught() -> None:
    class Explained(Exception):
        """Why."""

    class Silent(Explained):
        pass

    def silent() -> None: ...

    things = {"Explained": Explained, "Silent": Silent, "silent": silent, "constant": 3}
    assert unexplained(things) == ["Silent", "silent"]
