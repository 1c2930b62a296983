"""Calls of a programming model: for each function one that succeeds, and what breaks each rule."""

import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar


class ApiCall:
    """A call that is ready to be made.

    Attributes:
        module: the programming model.
        functions: its functions by what Python calls them, as the schema has them.
        method: what the schema calls it.
        target: the object; None for what belongs to none.
        args: the arguments by name.
        patch: pytest's monkeypatch.
    """

    module: ClassVar[ModuleType]
    functions: ClassVar[dict[str, dict[str, Any]]]
    renamed: ClassVar[dict[str, str]] = {}

    def __init__(self, method: str, target: Any = None, **args: Any) -> None:
        self.method = method
        self.target = target
        self.args = args
        self.patch: Any = None

    @property
    def function(self) -> Callable[..., Any]:
        """What is called; unbound where it is a method."""
        owner, _, name = self.method.rpartition(".")
        found = getattr(getattr(self.module, owner) if owner else self.module, name)
        assert callable(found)
        return found

    @property
    def is_bound(self) -> bool:
        """Whether the first argument is the object."""
        return next(iter(inspect.signature(self.function).parameters), "") == "self"

    def __call__(self) -> Any:
        return self.function(*([self.target] if self.is_bound else []), **self.args)

    def python_name(self, name: str) -> str:
        """What Python calls a parameter; ``self`` for the object, empty where there is none."""
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.renamed.get(name, name)).lower()
        parameters = inspect.signature(self.function).parameters
        if snake in parameters:
            return snake
        first = self.functions[self.method]["parameters"][0][0]
        return "self" if self.is_bound and name == first else ""

    def required(self) -> list[str]:
        """The parameters that have no default, the object left out."""
        parameters = inspect.signature(self.function).parameters.values()
        return [p.name for p in parameters if p.default is p.empty and p.name != "self"]

    def has_no_pointer(self, name: str) -> bool:
        """Whether Python returns what C writes through a pointer: nothing there could be null."""
        kind = dict(self.functions[self.method]["parameters"])[name]
        return kind.endswith("*") and not self.python_name(name)


class Scenarios:
    """What brings about the cases of rules: changes to a call that would succeed."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Callable[[Any], None]] = {}
        """By method, empty for all, and case."""

    def case(self, text: str, *methods: str) -> Callable[[Any], Any]:
        """Register what brings about a case, for some methods or for all."""

        def register(scenario: Callable[[Any], None]) -> Callable[[Any], None]:
            for method in methods or ("",):
                assert (method, text) not in self.known
                self.known[method, text] = scenario
            return scenario

        return register

    def setting(self, text: str, *methods: str, **args: Any) -> None:
        """Register a case that other arguments bring about."""
        self.case(text, *methods)(lambda call: call.args.update(args))

    def of(self, method: str, text: str) -> Callable[[Any], None] | None:
        """What brings about a case."""
        return self.known.get((method, text)) or self.known.get(("", text))

    def unused(self, cases: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """What is registered for none of these."""
        used = {key if key in self.known else ("", key[1]) for key in cases}
        return self.known.keys() - used
