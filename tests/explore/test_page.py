"""The page from arrays: what it refuses, and that it holds what was given."""

import base64
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest

from tinyattn.explore import Section, explore, fragment
from tinyattn.explore.page import ExploreError, packed

RNG = np.random.default_rng(0)


def weights(L: int = 2, H: int = 3, T: int = 4, S: int = 4) -> np.ndarray:
    e = np.exp(RNG.standard_normal((L, H, T, S)))
    return np.asarray(e / e.sum(-1, keepdims=True))


def arrays(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


TOKENS = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": weights()[0]}, r"weights must have the axes \(L, H, T, S\); got shape \(3, 4"),
        (
            {"weights": weights() * 2},
            "row of layer 0, head 0, query 0 has the sum 2: are these",
        ),
        ({"weights": arrays(2, 3, 4, 4)}, "query 0 has a negative weight: are these scores"),
        ({"weights": weights() * np.nan}, "weights must be finite; it has NaN"),
        ({"weights": np.zeros((2, 3, 0, 0)), "tokens": []}, "weights must not be empty"),
        ({"weights": "abc"}, r"weights must be an array of numbers \(L, H, T, S\); a tensor of a"),
        ({"tokens": ["a"]}, r"tokens must be 4, as weights \(2, 3, 4, 4\) have queries; got 1"),
        ({"weights": weights(S=5)}, "tokens must be 5, .* have keys; got 4; give the tokens of"),
        ({"keys": ["a"]}, r"keys must be 4, as weights \(2, 3, 4, 4\) have keys; got 1"),
        ({"tokens": [1, 2, 3, 4]}, "tokens must be texts: the text of each token, not its id"),
        ({"q": arrays(2, 3, 4, 8)}, "q and k belong together; give both or neither"),
        ({"q": arrays(2, 3, 5, 8), "k": arrays(2, 3, 4, 8)}, r"q must be \(2, 3, 4\) and D; got"),
        ({"q": arrays(2, 3, 4, 8), "k": arrays(2, 2, 4, 8)}, "k must have 3 heads, or a number"),
        ({"q": arrays(2, 3, 4, 8), "k": arrays(2, 3, 4, 7)}, r"k must be \(2, 3, 4, 8\); got"),
        ({"q": arrays(2, 3, 4, 8), "k": arrays(2, 3, 4, 8), "scale": [1, 2, 3]}, "scale must be a"),
        ({"q": arrays(2, 3, 4, 8), "k": arrays(2, 3, 4, 8), "scale": "x"}, "scale must be a fin"),
        ({"q": arrays(2, 3, 4, 8) * 1e40, "k": arrays(2, 3, 4, 8)}, "element above 1e.30"),
        ({"tokens": "abcd"}, "tokens must be a list of texts; got str"),
        ({"tokens": None}, "tokens must be a list of texts; got NoneType"),
        ({"layers": "ab"}, "layers must be a list of texts; got str"),
        ({"notes": "hello"}, "notes must be a list of texts; got str"),
        ({"tokens": ["a", "b", "c", "\ud800"]}, "tokens has a text that is not Unicode"),
        ({"bogus": 3}, "explore has no argument 'bogus'; it takes tokens and weights"),
        ({"weights": None, "q": 1}, "explore takes arrays with weights only"),
        ({"q": arrays(2, 3, 4, 8), "k": arrays(2, 3, 5, 8)}, "k must have at most 4 positions"),
        ({"v": arrays(2, 3, 5, 8)}, r"v must be \(2, 3, 4\) and E; got \(2, 3, 5, 8\)"),
        ({"layers": ["one"]}, "layers must be 2, as weights .* have layers; got 1"),
        (
            {"weights": np.full((1, 1, 1, 1025), 1 / 1025), "tokens": ["a"]},
            "at most 1024 positions",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ExploreError, match=message):
        explore(**{"tokens": TOKENS, "weights": weights()} | given)


def test_an_output_map_of_another_width_is_refused() -> None:
    with pytest.raises(ExploreError, match=r"out must be \(2, 24\) and C, with v; got \(2, 20"):
        Section(TOKENS, weights(), v=arrays(2, 3, 4, 8), out=arrays(2, 20, 24))
    with pytest.raises(ExploreError, match="needs tokens and weights, or a list of Sections"):
        explore([])


def test_the_page_holds_the_arrays() -> None:
    w, q, k, v, out = weights(), arrays(2, 3, 4, 8), arrays(2, 1, 4, 8), arrays(2, 3, 4, 5), None
    out = arrays(2, 15, 9)
    page = explore([Section(TOKENS, w, q=q, k=k, v=v, out=out, scale=[1, 2])], title="mine")
    assert page.startswith("<!doctype html>") and page.count("</script>") == 2
    data = json.loads(re.search(r'json">(.*?)</script>', page)[1])  # type: ignore[index]
    (section,) = data["sections"]

    def unpack(name: str) -> np.ndarray:
        kind = section[name]["type"]
        raw = zlib.decompress(base64.b64decode(section[name]["data"]))
        return np.frombuffer(raw, kind).reshape(section[name]["shape"])

    assert np.abs(unpack("weights") / 65535 - w).max() <= 0.5 / 65535 + 1e-9
    np.testing.assert_allclose(unpack("q"), q, rtol=1e-6)
    np.testing.assert_allclose(unpack("k"), np.broadcast_to(k, (2, 3, 4, 8)), rtol=1e-6)
    wanted = [[[np.linalg.norm(v[i, h, s] @ out[i, 5 * h : 5 * h + 5]) for s in range(4)]
               for h in range(3)] for i in range(2)]  # fmt: skip
    np.testing.assert_allclose(unpack("adds"), wanted, rtol=1e-6)
    assert section["scale"] == [1, 2]
    assert (np.unpackbits(unpack("allowed"), bitorder="little")[: w.size] == 1).all()
    assert packed(None) is None


def test_q_and_k_of_other_weights_are_noted() -> None:
    q, k = arrays(2, 3, 4, 8), arrays(2, 3, 4, 8)
    scores = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(8))
    right = scores / scores.sum(-1, keepdims=True)
    assert "note_q" not in Section(TOKENS, right, q=q, k=k).more
    assert "softmax of scale" in Section(TOKENS, right, q=q, k=k, scale=1).more["note_q"]


def test_heads_may_share_keys_and_values() -> None:
    """Grouped queries: head h uses the keys of group h // (H / G)."""
    q, k = arrays(1, 4, 4, 8), arrays(1, 2, 4, 8)
    scores = np.exp(q @ np.repeat(k, 2, axis=1).swapaxes(-1, -2) / np.sqrt(8))
    section = Section(TOKENS, scores / scores.sum(-1, keepdims=True), q=q, k=k, v=k)
    assert "note_q" not in section.more and section.v.shape == section.k.shape == (1, 4, 4, 8)


def test_a_tensor_of_a_graph_has_a_message() -> None:
    class Tensor:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    with pytest.raises(ExploreError, match=r"must be copied to a NumPy array first \(Can't"):
        explore(TOKENS, Tensor())


def test_small_and_rounded_weights_are_kept() -> None:
    w = np.full((1, 1, 512, 512), 1 / 512)  # large: roots in steps of 1/255
    tokens = [str(i) for i in range(512)]
    data = Section(tokens, np.broadcast_to(w, (4, 8, 512, 512))).as_dict()["weights"]
    raw = np.frombuffer(zlib.decompress(base64.b64decode(data["data"])), np.uint8)
    assert np.abs((raw / 255) ** 2 - 1 / 512).max() < 1 / 255 / 10
    Section(["a", "b"], [[[[1.004, -1e-9], [0.5, 0.5]]]])  # float16 rounds so


def test_text_that_looks_like_markup_ends_nothing() -> None:
    bad = ["</script><b>x</b>", "<!--", "&amp;", "\u2028"]
    page = fragment([Section(bad, weights())], title="<i>")
    assert page.count("</script>") == 2 and "<b>" not in page and "<!--" not in page
    data = json.loads(re.search(r'json">(.*?)</script>', page)[1])  # type: ignore[index]
    assert data["sections"][0]["tokens"] == bad and data["title"] == "<i>"
