"""Random calls of a programming model: what they are given, and what they have made."""

import random
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from support.odd_buffers import ODD_BUFFERS

NUMBERS = [-(1 << 63), -1, 0, 1, 2, 3, 24, 128, 200, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 32]
NUMBERS += [1 << 64, 10**5000, -(10**5000)]

ODD = [None, "text", b"", 1.5, float("nan"), [], [0], (None,), {}, object(), True, np.zeros((2, 0))]
ODD += [1j, "1.5", [10**5000], [1j], np.array(3), np.ones(2), iter([1]), int]
ODD += ["a\0b", "\ud800", *(make() for make in ODD_BUFFERS)]


class CallPool:
    """Objects that the calls of a sequence have made.

    Attributes:
        error: what a call may raise.
        random: where all choices come from.
        objects: by the names of their classes.
    """

    error: ClassVar[type[Exception]]

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.objects: dict[str, list[Any]] = {}

    def pick(self, kind: str) -> Any:
        """One of the objects of a class; None if there is none."""
        found = self.objects[kind]
        return self.random.choice(found) if found else None

    def odd(self) -> Any:
        """Something that hardly any call wants."""
        return self.random.choice([*ODD, *NUMBERS])

    def odd_or(self, *usual: Any) -> Any:
        """Mostly one of these."""
        if not usual or self.random.random() < 0.2:
            return self.odd()
        return self.random.choice(usual)

    def struct(self, make: Callable[..., Any], parts: dict[str, Any]) -> Any:
        """A struct of these parts, now and then with an odd one; None where it is refused."""
        try:
            struct = make(**parts)
            if self.random.random() < 0.1:
                setattr(struct, self.random.choice(list(parts)), self.odd())
        except self.error:
            return None
        return struct

    def run(self, call: Callable[[], Any]) -> None:
        """Call, and keep what it gives; errors of the programming model are answers too."""
        try:
            result = call()
        except self.error:
            return
        if type(result).__name__ in self.objects:
            self.objects[type(result).__name__].append(result)
