"""Exercises: the package's own function passes, and the mistakes that students make do not."""

import ast
import io
import tokenize
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exercise.solutions import MISTAKES, Mistake, answer, solution

from tinyattn import ops
from tinyattn.exercise import EXERCISES, Exercise, blank
from tinyattn.exercise.grade import Grade, grade
from tinyattn.exercise.grade_report import as_dict, as_text
from tinyattn.exercise.inputs import INPUTS
from tinyattn.tensor import OPS

every_exercise = pytest.mark.parametrize("name", EXERCISES)
every_mistake = pytest.mark.parametrize(
    ("name", "mistake"),
    [pytest.param(name, m, id=f"{name}-{m.what}") for name in MISTAKES for m in MISTAKES[name]],
)


def written(exercise: Exercise, text: str) -> Callable[..., Any]:
    """The function in the text of a reader's file."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "own.py", "exec"), namespace)
    function: Callable[..., Any] = namespace[exercise.name]
    return function


def graded(name: str, text: str, examples: int = 40) -> Grade:
    exercise = EXERCISES[name]
    return grade(exercise, written(exercise, text), examples=examples)


def test_each_exercise_has_inputs_and_mistakes() -> None:
    assert [*EXERCISES] == [*INPUTS] == [*MISTAKES]
    assert len(EXERCISES) == 16 and all(len(mistakes) >= 2 for mistakes in MISTAKES.values())


@every_exercise
def test_the_functions_of_the_package_pass(name: str) -> None:
    found = graded(name, solution(EXERCISES[name]), 20)
    assert found.ok, as_text(found)
    assert as_dict(found)["ok"] and as_text(found).endswith(f"/{EXERCISES[name].file}")


@every_exercise
def test_an_exercise_that_was_not_written_does_not_pass(name: str) -> None:
    found = graded(name, blank(EXERCISES[name], "own.py"), 1)
    first, *others = found.results
    assert first.state == "broken" and {result.state for result in others} <= {"left out"}
    assert f"NotImplementedError: write the body of {name} (line " in first.text


@every_mistake
def test_a_mistake_is_found_and_named(name: str, mistake: Mistake) -> None:
    found = graded(name, solution(EXERCISES[name], *mistake.edits))
    assert found.broken[0].name == mistake.broken, as_text(found)
    assert mistake.found in as_text(found), as_text(found)


@every_exercise
def test_a_file_has_the_task_but_not_the_solution(name: str) -> None:
    exercise = EXERCISES[name]
    text = blank(exercise, "own.py")
    tree = ast.parse(text)
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    docstring, unwritten = function.body
    assert exercise.title in ast.unparse(docstring) and isinstance(unwritten, ast.Raise)
    assert not function.decorator_list
    kinds = (ast.Expr, ast.Import, ast.ImportFrom, ast.FunctionDef)
    assert all(isinstance(node, kinds) for node in tree.body)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    assert {t.string for t in tokens if t.type == tokenize.COMMENT} <= {"# fmt: skip"}
    namespace: dict[str, Any] = {}
    exec(compile(text, "own.py", "exec"), namespace)
    del namespace[name], namespace["__builtins__"]
    assert not {id(x) for x in namespace.values()} & {id(exercise.function), id(exercise.original)}
    assert not any(getattr(x, "__module__", "") == exercise.original.__module__
                   for x in namespace.values() if not isinstance(x, type))  # fmt: skip
    assert max(map(len, text.splitlines())) <= 100


VALUE = "return x @ weight + (0 if bias is None else bias)"
DW = "lambda g: x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])"
DB = "lambda g: g.reshape(-1, g.shape[-1]).sum(axis=0)"
"""Parts of a right `linear`."""


@pytest.mark.parametrize(
    ("body", "broken", "message"),
    [
        ("pass", "value", "the function returned None: does it end with `return`?"),
        ("return x", "value", "an op returns its value and its vjp"),
        ("return x, (lambda g: g,)", "value", "a tuple of 3 functions of g"),
        ("return 1, (None, None, None)", "value", "the value must be an array; got int"),
        ("return x @ weight[:, :1], (None, None, None)", "value", "shape of y = "),
        ("x *= 2", "value", "output array is read-only; got (1,) and (1, 1) (line "),
        ("return x @ weigth, ()", "value", "name 'weigth' is not defined (line "),
        ("return linear(xp, x, weight)", "value", "RecursionError: maximum recursion depth"),
        ("assert False, 'mine'", "value", "AssertionError: mine (line "),
        (f"{VALUE}, (None, None, None)", "gradient",
         "the vjp of x must be a function of g; got NoneType"),
        (f"{VALUE}, lambda g: (g @ weight.T,)", "gradient",
         "its vjp must return 3 gradients in a tuple"),
        (f"{VALUE}, lambda g: (None, None, None)", "gradient",
         "the gradient of x must be float64 (1,), as x is; got NoneType"),
        (f"{VALUE} * np.float64(1), (lambda g: g @ weight.T, {DW}, {DB})", "float32",
         "y is float64"),
        (f"{VALUE}, (lambda g: g @ weight.T, {DW} * np.float64(1), {DB})", "float32",
         "the gradient of weight must be float32 (1, 1), as weight is; got float64 (1, 1)"),
    ],
)  # fmt: skip
def test_a_wrong_kind_of_answer_is_told_so(body: str, broken: str, message: str) -> None:
    text = answer(EXERCISES["linear"], body).replace("import math", "import numpy as np")
    found = graded("linear", text, 20)
    assert found.broken[0].name == broken and message in found.broken[0].text, as_text(found)


def test_a_function_that_is_not_always_the_same_does_not_pass() -> None:
    calls = iter(range(10**6))
    text = answer(EXERCISES["causal"], "return count() % 3 == np.ones((queries, keys))")
    exercise = EXERCISES["causal"]
    f = written(exercise, text)
    f.__globals__["count"] = lambda: next(calls)
    assert not grade(exercise, f).ok


def test_an_op_that_the_function_calls_is_the_op_of_the_package() -> None:
    body = "from tinyattn import ops\nreturn ops.softmax(x, allowed, axis=axis).data, (None, None)"
    found = graded("softmax", answer(EXERCISES["softmax"], body), 10)
    assert [r.name for r in found.results if r.state == "holds"][:1] == ["value"]


def test_grading_leaves_the_ops_as_they_were() -> None:
    before = dict(OPS)
    graded("softmax", solution(EXERCISES["softmax"], ("xp.exp(scores - m)", "scores")), 5)
    assert before == OPS
    np.testing.assert_array_equal(ops.softmax([0.0, 0.0]).numpy(), [0.5, 0.5])


def test_a_counterexample_is_small() -> None:
    found = graded("softmax", solution(EXERCISES["softmax"], (", 1)\n", ", 1) + 1\n")))
    arguments = found.broken[0].arguments
    assert arguments["x"].tolist() == [0.0] and arguments["axis"] == 0
    assert "y = (2) instead of (1)" in as_text(found)


def test_the_text_shows_arguments_of_all_kinds() -> None:
    edit = ("* (1 / (1 - rate))", "* 1")
    text = as_text(graded("dropout", solution(EXERCISES["dropout"], edit)))
    assert "dropout_rng = DropoutRNG(0)" in text and "rate = 0.5" in text
    edit = ("xp.where(allowed, x, -math.inf)", "xp.where(allowed, x, 0)")
    assert "allowed = [False]" in as_text(graded("softmax", solution(EXERCISES["softmax"], edit)))
    edit = ("if most < norm < math.inf:", "if norm:")
    text = as_text(graded("clip_gradients", solution(EXERCISES["clip_gradients"], edit)))
    assert "gradients = [(1)], most = 1" in text


@pytest.mark.parametrize("name", ["softmax", "attention", "matmul"])
def test_the_laws_of_attention_are_checked_where_they_name_the_op(name: str) -> None:
    laws = [r.name for r in graded(name, solution(EXERCISES[name]), 4).results if r.page]
    assert laws and (name != "attention" or "scores_are_divided_by_the_root_of_the_width" in laws)
