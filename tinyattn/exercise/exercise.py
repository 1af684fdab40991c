"""Wing, exercise: what an exercise is, one function of this package that a reader writes.

Its text, its signature and its solution are those of the function itself. An exercise only says
which function it is, and what its docstring does not say.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyattn import ops

RETURNS = """\
`xp` is the array module, here NumPy. The function returns a pair: the value y, and a tuple with one
function of g = dL/dy for each array. This function returns the gradient of its array, in the shape
and dtype of the array. It is None for integers and booleans, which have no gradient. Instead of the
tuple, one function of g may return a tuple of all gradients. As long as you have no gradient, write
None in its place: the value is checked first. Do not change the arguments. Invalid arguments do not
occur: the package checks them before it calls the function."""
"""What a function under `@op` returns, in the words of an exercise."""


@dataclass(frozen=True)
class Exercise:
    """One function to write.

    Args:
        function: an op, or another function of this package.
        task: a class whose docstring explains the function, if its own does not.
        changes: the arguments that the function changes in place.
        hint: what a reader needs to know besides the docstring.
    """

    function: Callable[..., Any]
    task: type | None = None
    changes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def original(self) -> Callable[..., Any]:
        """The function as it is written, without `@op` or `@dispatched`."""
        function: Callable[..., Any] = inspect.unwrap(self.function)
        return function

    @property
    def name(self) -> str:
        """The name of the function, and of the exercise."""
        return self.original.__name__

    @property
    def is_op(self) -> bool:
        """Whether the function is an op, which returns its value and its vjp."""
        return getattr(ops, self.name, None) is self.function

    @property
    def signature(self) -> inspect.Signature:
        """The parameters of the function."""
        return inspect.signature(self.original)

    @property
    def text(self) -> str:
        """The docstring that says what to compute."""
        explained: Any = self.task or self.original
        return inspect.getdoc(explained) or ""

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return self.text.partition("\n")[0].rstrip(".")

    @property
    def rules(self) -> str:
        """What the function returns or changes, and the hint; empty if the docstring says all."""
        changes = " and ".join(self.changes)
        changed = f"The function changes {changes} in place, and no other argument." * bool(changes)
        return "\n\n".join(filter(None, [RETURNS * self.is_op, changed, self.hint]))

    @property
    def file(self) -> str:
        """The file of the function, such as ops/softmax.py."""
        module = self.original.__module__.removeprefix("tinyattn.")
        return f"{module.replace('.', '/')}.py"

    @property
    def source(self) -> str:
        """The text of that file."""
        return inspect.getsource(sys.modules[self.original.__module__])

    @property
    def page(self) -> str:
        """The page with the mathematics that the file names, or ""."""
        about = sys.modules[self.original.__module__].__doc__ or ""
        found = re.search(r"derivations/\w+\.md", about)
        return found[0] if found else ""

    def check_signature(self, f: Callable[..., Any], file: Path) -> None:
        """Raises: ValueError unless f takes the same arguments as the function."""
        wanted, given = ([(p.name, p.kind) for p in s.parameters.values()]
                         for s in (self.signature, inspect.signature(f)))  # fmt: skip
        if given != wanted:
            raise ValueError(f"{self.name} must take the arguments {_names(self.signature)}; got "
                             f"{_names(inspect.signature(f))} in {file}")  # fmt: skip


def _names(signature: inspect.Signature) -> str:
    """The parameters as they are written, without their types."""
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
