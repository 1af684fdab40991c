"""The measures against other ways to compute them, and on a model with one known head."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from blocks import CLOSE
from numpy.testing import assert_allclose, assert_array_equal
from tiny import CONTEXT, TINY, every_type, ids_of, tiny

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import ATTENTION, MultiHead
from tinyattn.data import PAD, DataError, Vocabulary
from tinyattn.models import GPT, GPTConfig
from tinyattn.theory import parts as vectors
from tinyattn.theory import rank_one_update
from tinyattn.trace import (
    Cases,
    attribution,
    cases_of,
    edges,
    edited,
    feedforwards,
    heads,
    lens,
    neurons,
    parts_of,
    patching,
    probe,
    run,
    trace,
    try_edits,
)
from tinyattn.trace.edit import Counts, together
from tinyattn.trace.probe import ridge
from tinyattn.training import AdamW

LETTERS = "abcdefgh"
PAIRS = [(f"Is it {a} {b} now?", LETTERS[(LETTERS.index(a) + 1) % 8].upper())
         for a in LETTERS for b in "xy"]  # fmt: skip
"""The first name decides the answer; the last name does not matter."""


def random_cases(model: GPT, n: int = 6) -> Cases:
    """Sequences whose targets are what the model says, but for some of them."""
    ids = ids_of(n, CONTEXT)
    with no_grad():
        said = model(ids).numpy().argmax(-1)
    starts = np.arange(n) % 3 + 5
    targets = np.full_like(ids, PAD)
    for i, start in enumerate(starts):
        targets[i, start : start + 3] = said[i, start : start + 3]
    targets[::3] = np.where(targets[::3] != PAD, targets[::3] % 10 + 1, PAD)
    words = [f"Who is {'abc'[: start - 7 + 2] or 'a'}" for start in starts]
    return Cases(words, ["?"] * n, ids, targets, starts)


@pytest.fixture(scope="module", params=["trained", "by hand"])
def known(request: pytest.FixtureRequest) -> Any:
    """A model whose only way from the name to the answer is head 1 of its only layer."""
    vocabulary = Vocabulary.from_text("".join(q + a for q, a in PAIRS))
    model = GPT(GPTConfig(vocabulary=len(vocabulary), context=24, layers=1, heads=2, width=32,
                          dropout=0.0))  # fmt: skip
    trained: Any = SimpleNamespace(model=model, vocabulary=vocabulary)
    cases = cases_of(trained, PAIRS)
    model.layers[0].feedforward.contract.weight.data[:] = 0
    if request.param == "trained":
        train(model, cases)
    else:
        write(model, vocabulary)
    assert cases.correct(run(model, cases.ids)).all()
    return SimpleNamespace(trained=trained, model=model, cases=cases)


def train(model: GPT, cases: Cases) -> None:
    """Learn the answers; head 0 and the feed-forward network add nothing."""
    optimizer = AdamW([*model.named_parameters()], weight_decay=0.0)
    layer: Any = model.layers[0]
    contract = layer.feedforward.contract
    nothing = [layer.attention.out.weight.data[:16], contract.weight.data, contract.bias.data]
    for _ in range(250):
        for array in nothing:
            array[:] = 0
        loss = ops.cross_entropy(model(cases.ids), cases.targets, ignore=PAD)
        loss.backward()
        optimizer.step(0.01)
    for array in nothing:
        array[:] = 0


def write(model: GPT, vocabulary: Vocabulary) -> None:
    """The head of examples/10_construction.py: MASK is its x_1, which attends to x_3, a name.

    x_1 contains u_d, names contain u_c, and other letters are u_a. There u_b is the value of x_3;
    here each name has a vector of its own, which the value matrix takes to that of its answer.
    """
    spare = np.random.default_rng(0).standard_normal((32, 31))
    basis = np.linalg.qr(np.concatenate([np.ones((32, 1)), spare], axis=1))[0].T[1:]  # mean 0
    u, names, places, end = vectors(Tensor(basis[:4]), 1.0), basis[4:12], basis[12:20], basis[20]
    a, b, c, d = basis[:4]
    ids = vocabulary.ids
    block: Any = model.layers[0].attention
    for name, parameter in model.named_parameters():
        if not name.endswith("gain") and "feedforward" not in name:
            parameter.data[:] = 0
    embedding, head = model.embedding.weight.data, model.head.weight.data
    embedding[:] = np.sqrt(2) * a
    embedding[vocabulary.mask] = b + d
    for i, letter in enumerate(LETTERS):
        place = ids[PAIRS[2 * i][1]]
        embedding[ids[letter]], embedding[place] = c + names[i], a + end
        head[:, place] = places[i]
    head[:, vocabulary.mask] = end
    model.layers[0].norm_1.gain.data[:] = 2  # larger scores
    block.query.weight.data[:, 16:20] = (basis[:4] @ u.query_matrix().numpy()).T
    block.key.weight.data[:, 16:20] = basis[:4].T
    block.value.weight.data[:, 16:24] = names.T
    block.out.weight.data[16:24] = places


def test_every_measure_names_the_only_head(known: Any) -> None:
    model, cases = known.model, known.cases
    first, last = lens(model, cases)
    assert first.correct <= 2 and last.correct == 16

    found = attribution(model, cases)
    leads = dict(zip(found.names, found.leads.mean(0), strict=True))
    assert leads["layers.0 head 1"] > 0.9 * sum(leads.values()) > 0
    assert abs(leads["layers.0 head 0"]) < 1e-6

    lost = {row.name: row.lost for row in [*heads(model, cases), *feedforwards(model, cases)]}
    assert lost["layers.0 head 1"] == lost["layers.0 attention"] >= 14
    assert lost["layers.0 head 0"] == lost["layers.0 feedforward"] == 0
    assert not neurons(model, cases).any()

    cut = edges(model, cases)["layers.0"]
    assert cut["MASK", "first name"] >= 14
    assert max(n for edge, n in cut.items() if "MASK" not in edge and "answer" not in edge) == 0

    gaps = {(row.name, row.part): row.gap for row in patching(model, cases)}
    assert gaps["embedding", "first name"] > 0.95 and gaps["embedding", "name"] > 0.95
    assert abs(gaps["embedding", "last name"]) < 0.05
    assert gaps["layers.0", "MASK"] > 0.999 and gaps["layers.0.attention", "MASK"] > 0.999
    assert gaps["layers.0", "name"] == gaps["layers.0.feedforward", "MASK"] == 0

    fitted = np.isin(np.arange(16) % 4, (0, 3))  # ax, by, cx, ..; the others are ay, bx, cy, ..
    found = probe(model, cases.take(fitted), cases.take(~fitted))
    correct = {(row.name, row.position): row.correct for row in found}
    assert correct["layers.0", "MASK"] == correct["embedding", "first name, letter 1"] == 8
    assert correct["embedding", "MASK"] <= 2 and correct["embedding", "last name, letter 1"] <= 2
    assert [row.shuffled < 8 for row in found if row[:2] == ("layers.0", "MASK")] == [True]


def test_the_parts_of_a_question() -> None:
    asked = ["Where was Ada Bo Cy born?", "Where was Al Dee born?"]
    vocabulary = Vocabulary.from_text("".join(asked) + "London")
    trained: Any = SimpleNamespace(model=SimpleNamespace(max_length=40), vocabulary=vocabulary)
    cases = cases_of(trained, [(asked[0], "London"), (asked[1], "Ob"[::-1].replace("O", "o"))])
    spelled = {
        part: ["".join(vocabulary.characters[i] for i in ids[row])
               for ids, row in zip(cases.ids, mask, strict=True)]
        for part, mask in parts_of(cases).items()
    }  # fmt: skip
    assert spelled == {
        "Where was": ["Where was ", "Where was "],
        "first name": ["Ada", "Al"],
        "last name": [" Bo Cy", " Dee"],
        "born?": [" born?", " born?"],
        "MASK": ["\u2047", "\u2047"],
        "answer": ["London", "bo"],
    }


def test_a_pair_that_does_not_fit_is_refused(known: Any) -> None:
    with pytest.raises(DataError, match="with its answer has 30 tokens, and the model's cont"):
        cases_of(known.trained, [("Is it a x now?" * 2, "B")])
    with pytest.raises(DataError, match="there are no questions with answers"):
        cases_of(known.trained, [])


@every_type
def test_the_terms_of_a_logit_sum_to_it(name: str, positions: str) -> None:
    model = tiny(name, positions)
    model.astype("float64")
    cases = random_cases(model)
    found = attribution(model, cases)
    logits = cases.at_start(run(model, cases.ids))
    assert_allclose(found.logits, logits[np.arange(6), cases.first], rtol=1e-9, atol=1e-9)
    assert_allclose(found.terms.sum(-1), found.logits, **CLOSE)


@every_type
def test_the_lens_at_the_end_is_the_model(name: str, positions: str) -> None:
    model = tiny(name, positions)
    cases = random_cases(model)
    logits = cases.at_start(run(model, cases.ids))
    p = ops.softmax(logits).numpy()[np.arange(6), cases.first]
    last = lens(model, cases)[-1]
    assert last.correct == (logits.argmax(-1) == cases.first).sum()
    assert_allclose(last.probability, p.mean(), rtol=1e-5)


@every_type
def test_a_knock_out_is_a_matrix_with_zeros(name: str, positions: str) -> None:
    """A head without its rows of the output map, a neuron without its row of the second map."""
    model = tiny(name, positions)
    model.astype("float64")
    cases = random_cases(model)
    before = cases.correct(run(model, cases.ids))

    def lost_without(weight: Any, rows: slice) -> int:
        kept = weight.data.copy()
        weight.data[rows] = 0
        after = cases.correct(run(model, cases.ids))
        weight.data[:] = kept
        return int((before & ~after).sum())

    lost = {row.name: row.lost for row in [*heads(model, cases), *feedforwards(model, cases)]}
    every = neurons(model, cases)
    D = TINY["width"] // TINY["heads"]
    for i, layer in enumerate(model.layers):
        out: Any = layer.attention
        for h in range(TINY["heads"]):
            wanted = lost_without(out.out.weight, slice(h * D, (h + 1) * D))
            assert lost[f"layers.{i} head {h}"] == wanted
        wanted = [lost_without(layer.feedforward.contract.weight, slice(n, n + 1))
                  for n in range(4 * TINY["width"])]  # fmt: skip
        assert_array_equal(every[i], wanted)


def test_a_cut_edge_is_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logits without an edge are those of a block that masks it."""

    class Masked(MultiHead):
        allowed: np.ndarray | None = None

        def attend(self, q: Tensor, k: Tensor, v: Tensor, call: Any) -> Tensor:
            return super().attend(q, k, v, call._replace(allowed=Masked.allowed))

    monkeypatch.setitem(ATTENTION, "masked", Masked)
    model = GPT(GPTConfig(**{**TINY, "layers": 1}, attention="masked"))
    for parameter in model.parameters():
        parameter.data = np.random.default_rng(1).standard_normal(parameter.shape) * 0.7
    cases = random_cases(model)
    before = cases.correct(run(model, cases.ids))
    parts = parts_of(cases)
    found = edges(model, cases)["layers.0"]
    assert len({*found.values()}) > 1
    for (query, key), lost in found.items():
        after = []
        for i in range(len(cases.ids)):
            Masked.allowed = ~(parts[query][i][:, None] & parts[key][i])
            after.append(cases.take(np.array([i])).correct(run(model, cases.ids[[i]]))[0])
        Masked.allowed = None
        assert lost == (before & ~np.array(after)).sum(), (query, key)


def test_a_probe_reads_what_is_linear_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    labels, x = rng.integers(3, size=90), rng.standard_normal((90, 20))
    x[:, :3] += 4 * np.eye(3)[labels]
    assert (ridge(x[:60], labels[:60], x[60:], 3) == labels[60:]).mean() > 0.9
    found = [ridge(x[:60] + far, labels[:60], x[60:] + far, 3) for far in (0, 1000)]
    assert_array_equal(*found)  # a vector that is added to all rows does not matter
    noise = rng.standard_normal((90, 20))
    assert (ridge(noise[:60], labels[:60], noise[60:], 3) == labels[60:]).mean() < 0.6
    common = np.bincount(labels[:60]).argmax()  # rows that are all equal say nothing
    assert (ridge(np.ones((60, 4)), labels[:60], np.ones((5, 4)), 3) == common).all()


def test_a_rank_one_change_is_the_least_of_all_that_move_the_key() -> None:
    """No other change with key D = delta changes the outputs of the keys less."""
    rng = np.random.default_rng(0)
    keys, key, delta = rng.standard_normal((40, 6)), rng.standard_normal(6), rng.standard_normal(3)
    change = rank_one_update(keys, key, delta)
    assert_allclose(key @ change, delta, rtol=1e-10)
    assert np.linalg.matrix_rank(change) == 1

    def cost(d: np.ndarray) -> float:
        ridge = 1e-3 * np.trace(keys.T @ keys / 40) / 6
        return float(((keys @ d) ** 2).sum() / 40 + ridge * (d**2).sum())

    for _ in range(50):
        other = rng.standard_normal((6, 3))
        other -= np.outer(key, key @ other) / (key @ key)  # leaves the key's output
        assert cost(change) <= cost(change + 0.01 * other)


def test_an_edit_moves_the_answer_and_leaves_the_model(known: Any) -> None:
    model, cases = known.model, known.cases
    before = {name: array.copy() for name, array in model.state().items()}
    case = cases.take(np.array([0]))
    changed = edited(model, case, "H", cases.take(np.arange(1, 16)))
    assert all((array == before[name]).all() for name, array in model.state().items())
    differ = [name for name, array in changed.state().items() if (array != before[name]).any()]
    assert differ == ["layers.0.feedforward.contract.weight"]
    moved = cases_of(known.trained, [(cases.questions[0], "H")])
    assert moved.correct(run(changed, moved.ids)).all()
    with pytest.raises(DataError, match="nobody in the training questions is from 'Z'"):
        edited(model, case, "Z", cases)
    # The two questions about `a` differ in the last name only, which this model does not read: both
    # are moved. Nobody else is.
    still = cases.correct(run(changed, cases.ids))
    assert_array_equal(still, [False, False, *[True] * 14])


def test_all_measures_at_once(known: Any) -> None:
    rows = np.arange(0, 16, 2)
    found = trace(known.trained, known.cases.take(rows), known.cases.take(rows + 1), edits=3)
    again = trace(known.trained, known.cases.take(rows), known.cases.take(rows + 1), edits=3)
    assert found == again and found["correct"] == found["cases"] == 8
    assert found["edits"]["moved"]["correct"] == found["edits"]["moved"]["total"] == 3
    assert found["edits"]["kept"]["total"] == 3 * 7


def test_no_correct_answer_is_no_error(known: Any) -> None:
    wrong = cases_of(known.trained, [("Is it a x now?", "C"), ("Is it b x now?", "D")])
    assert patching(known.model, wrong) == []
    assert neurons(known.model, wrong).shape == (1, 128) and not neurons(known.model, wrong).any()
    found = try_edits(known.trained, wrong, known.cases, count=2)[""]
    assert found.moved.total == found.kept.total == [] and found.moved.as_dict()["total"] == 0


def test_the_interval_of_edits_that_differ_is_wider() -> None:
    """Answers after one edit are not independent: 50 wrong in 2 of 20 edits, or 5 in each."""
    some, all_alike = Counts(), Counts()
    for i in range(20):
        some.add(np.full(50, i >= 2))
        all_alike.add(np.arange(50) >= 5)
    a, b = some.as_dict(), all_alike.as_dict()
    assert a["correct"] == b["correct"] == 900 and a["total"] == b["total"] == 1000
    assert b["low"] == b["high"] == 0.9 and a["low"] <= 0.8 < 0.95 <= a["high"]
    assert together([some, all_alike]).total == [100] * 20


def test_questions_must_differ_in_a_name(known: Any) -> None:
    for asked in (
        ["Is it a x now?"],
        ["Is it a x now?"] * 2,
        ["Is it a now?", "Is it a b now?"],
    ):
        cases = cases_of(known.trained, [(question, "B") for question in asked])
        with pytest.raises(
            DataError, match="the questions must have one form with different names"
        ):
            parts_of(cases)


def test_places_that_all_begin_alike_are_refused(known: Any) -> None:
    one = known.cases.take(np.array([0, 1]))
    with pytest.raises(DataError, match="places of the training questions all begin with one let"):
        try_edits(known.trained, known.cases, one, count=16)
