"""The examples run and print the right results."""

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest

from tinyattn.attention import ATTENTION

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the example with a number, as a user would. Returns: what it prints."""

    def run(number: int) -> str:
        (path,) = [e for e in EXAMPLES if e.name.startswith(f"{number:02d}_")]
        monkeypatch.setattr(sys, "argv", [str(path)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_compiles_names_its_command_and_finds_its_imports(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert f"python examples/{path.name}" in (ast.get_docstring(tree) or "")
    compile(tree, path.name, "exec")
    tree.body = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    exec(compile(tree, path.name, "exec"), {})


def test_steps_by_hand_learn(run) -> None:
    printed = run(0)
    losses = [float(loss) for loss in re.findall(r"^step .* loss (\S+)$", printed, re.M)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True) and losses[-1] < 0.1
    assert float(re.search(r"never saw: (\S+)%", printed)[1]) > 98


def test_the_first_gradient_agrees_with_finite_differences(run) -> None:
    printed = run(1)
    assert "average of the values: 13.2973\n" in printed
    assert "scores : [-2.3259  1.7393  0.5866]" in printed
    assert "by finite differences: -2.3259 for" in printed
    assert "gradcheck            : True\n" in printed


def test_a_head_by_hand_is_the_head_of_the_package(run) -> None:
    printed = run(2)
    assert "    0.34  0.41  0.25    · \n" in printed
    assert float(re.search(r"ops.attention: (\S+)", printed)[1]) < 1e-14
    assert "first output is the first value: True\n" in printed


def test_an_attention_type_of_your_own_can_be_used_everywhere(run) -> None:
    try:
        printed = run(5)
    finally:
        ATTENTION.pop("window", None)
    assert "  x x x . . . . . .\n  x x x x . . . . .\n" in printed  # bidirectional
    assert "  x . . . . . . . .\n  x x . . . . . . .\n  x x x . . . . . .\n" in printed  # causal
    assert printed.count("depends on the first after 4 layers") == 2
    assert "gradients are right: True\n" in printed
    assert re.search(
        r"last position: \[0\. +0\. +0\. +0\. +0\. +0\. +0\.33 0\.33 0\.3[34]\]", printed
    )


def test_a_longer_query_copies_a_word(run) -> None:
    printed = run(6)
    shares = re.findall(r"^    (\w+) +(#*) +(\d\.\d+)$", printed, re.M)
    wanted = [float(share) for word, _, share in shares if word == "rain"]
    assert wanted == [0.1, 0.232, 0.5, 0.99]
    assert all(len(marks) == round(40 * float(share)) for _, marks, share in shares)
    assert sum(float(share) for *_, share in shares[-10:]) == pytest.approx(1, abs=0.005)
    assert "than 50,256 others: 15.42\n" in printed


def test_queries_average_and_mix_colours(run) -> None:
    title, last = "", {}
    for line in run(7).splitlines():
        if not line.startswith(" "):
            title = line.split(":")[0]
        elif weight := re.search(r"^    (\w+) +#* +(\d\.\d+)$", line):
            last.setdefault(title, {})[weight[1]] = float(weight[2])
    assert last["1 (red + blue)"]["red"] == 0.3222 == last["1 (red + blue)"]["blue"]
    assert last["8 (red + blue)"] == last["-8 (all the others)"]
    assert last["8 (red + blue)"]["red"] == 0.4997
    assert last["8 (red + blue + white)"]["white"] == 0.3333
    assert last["8 red + 7 blue"]["red"] == pytest.approx(0.731, abs=0.001)
    assert list([*last.values()][-1].values()) == [0.5, 0.05, 0.2, 0.1, 0.15]


def test_a_key_of_random_length_has_two_modes_as_the_law_predicts(run) -> None:
    printed = run(8)
    drawn = re.findall(r"variance (\S+), by the law (\S+); humps: (\d)", printed)
    assert [humps for _, _, humps in drawn] == ["1", "1", "2"]
    for variance, law, _ in drawn:
        assert float(variance) == pytest.approx(float(law), abs=0.003)
    bins = re.findall(r"(\d+)%  law +(\d+)% (#*)$", printed, re.M)
    assert len(bins) == 33
    assert all(abs(int(share) - int(law)) <= 1 for share, law, _ in bins)
    last = [len(bar) for _, _, bar in bins[22:]]
    assert min(last[0], last[-1]) > 10 * last[5] > 0  # at the ends, not in the middle


def test_two_heads_vary_less_and_one_that_repels_varies_least(run) -> None:
    near, other = run(9).split("another key has a random length")
    one, two, repelling = map(float, re.findall(r"variance (\S+),", near))
    assert one > 10 * two > 1000 * repelling
    assert "    0 |   .    .    .    .    . 100%    .    .    .    .    . | 1\n" in near
    one, two, repelling = map(float, re.findall(r"variance (\S+)", other))
    assert repelling > 1000 * max(one, two)  # its disadvantage


def test_a_construction_also_copies_orthogonal_inputs(run) -> None:
    plain, right, wrong = re.split(r"^(?:Q and V|a Q that).*$", run(10), flags=re.M)
    assert re.search(r"0\.02 .* 0\.96 ##########  0\.02 .*c_2 = \+0\.96 u_a \+0\.04 u_b", plain)
    assert "c_1 = +0.98 u_b -0.96 u_c\n" in right
    assert "c_2 = +0.98 u_b -0.02 u_c\n" in right
    assert "c_1 = 0\n" in wrong  # although the score of x_1 for x_3 is larger than that for x_1
    missed = re.findall(r"(\S+)%: β = .* wrong by (\S+)%", wrong)
    assert [float(weight) for weight, _ in missed] == [10, 1, 0.1]
    for weight, error in missed:  # √2/(2 + E) of u_b, where 2/(2 + E) is the weight
        assert float(error) == pytest.approx(float(weight) / 2**0.5, abs=0.006)


def test_text_at_low_temperature_repeats_itself_and_a_de_bruijn_sequence_late(run) -> None:
    printed = run(11)
    repeats = re.findall(r"^temperature (\S+): .* after (\d+) letters; (\d+)", printed, re.M)
    assert [temperature for temperature, _, _ in repeats] == ["0", "0.3", "1", "3"]
    first, different = zip(*((int(a), int(d)) for _, a, d in repeats), strict=True)
    most = int(re.search(r"within (\S+) of them", printed)[1].replace(",", ""))
    assert max(first) < most == 50**2 + 2
    assert different == tuple(sorted(different)) and different[0] < 20 and different[-1] > 200
    before, period = re.search(r"after (\d+) pairs, a cycle of (\d+) pairs", printed).groups()
    assert int(before) + int(period) == different[0] == first[0] - 2
    assert "in in in in in in" in printed
    assert "a pair occurs again after 102 words" in printed
    latest = printed.splitlines()[-1].strip()
    assert len(latest) == 102 and len({latest[i : i + 2] for i in range(101)}) == 100


@pytest.mark.slow
def test_a_gpt_learns_to_add(run) -> None:
    printed = run(3)
    assert float(re.search(r"never saw: (\S+)%", printed)[1]) > 95


@pytest.mark.slow
def test_a_gpt_learns_from_a_text_and_generates(run) -> None:
    printed = run(4)
    losses = [float(loss) for loss in re.findall(r"^step .* loss (\S+)", printed, re.M)]
    assert losses[-1] < losses[0] / 2
    assert len(printed[printed.rindex("\nstep") :]) > 300
