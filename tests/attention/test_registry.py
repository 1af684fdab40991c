"""Attention types by name, and the options behind a name."""

import pytest
from blocks import new

from tinyattn.attention import ATTENTION, BigBird, options_of, parse_attention


def test_a_name_and_its_options_are_parsed() -> None:
    assert parse_attention("multihead", ATTENTION) == ("multihead", {})
    assert parse_attention(" bigbird , block=16,random_blocks=0", ATTENTION) == (
        "bigbird", {"block": 16, "random_blocks": 0},
    )  # fmt: skip
    for name, made in ATTENTION.items():
        defaults = options_of(made)
        text = ",".join([name, *(f"{key}={value}" for key, value in defaults.items())])
        assert parse_attention(text, ATTENTION) == (name, defaults)
    assert options_of(BigBird) == {
        "block": 8, "window_blocks": 3, "global_blocks": 1, "random_blocks": 2, "seed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dense", "attention must be one of multihead, bilinear, .*; got 'dense'"),
        ("", "attention must be one of .*; got ''"),
        ("multihead,block=2", "'multihead' has no option 'block'; it has none"),
        ("latent,rows=2", "'latent' has no option 'rows'; it has segment=0"),
        (
            "bigbird,block",
            "option block needs a whole number of at least 0, such as block=8; got 'block'",
        ),
        (
            "bigbird,block=1.5",
            "option block needs a whole number of at least 0, such as block=8; got 'block=1.5'",
        ),
        (
            "bigbird,block=-1",
            "option block needs a whole number of at least 0, such as block=8; got 'block=-1'",
        ),
        ("bigbird,block=" + "9" * 20, "option block must be at most 16777216; got '9"),
        ("bigbird,block=" + "9" * 5000, "option block must be at most 16777216; got '9"),
        ("bigbird,seed=2147483648", "option seed must be at most 2147483647; got '21"),
        ("bigbrid", r"got 'bigbrid'; did you mean 'bigbird'\?"),
        ("dense", r"got 'dense'; did you mean 'multihead'\?"),
        ("bigbird,blok=3", r"has no option 'blok'; it has block=8, .*; did you mean 'block'\?"),
        ("bigbird,", "'bigbird' has no option ''; it has block=8, window_blocks=3"),
        ("bigbird,width=8", "'bigbird' has no option 'width'"),
    ],
)
def test_what_cannot_be_parsed_raises_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_attention(text, ATTENTION)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bigbird", {"block": 0}, "block must be at least 1 and window_blocks odd; got 0 and 1"),
        ("bigbird", {"window_blocks": 2}, "window_blocks odd; got 4 and 2"),
        ("bigbird", {"random_blocks": -1}, "must be at least 0; got 1, -1 and 0"),
        ("linformer", {"rows": 0}, "rows must be at least 1; got 0"),
        (
            "linformer-causal",
            {"rows": 5},
            r"rows must be at least 1, and at most segment .*; got 5 and 4",
        ),
        (
            "linformer-causal",
            {"rows": 0},
            r"rows must be at least 1, and at most segment .*; got 0 and 4",
        ),
        ("latent", {"segment": -1}, "segment must be at least 1, or 0 for √max_length; got -1"),
    ],
)
def test_an_option_out_of_range_raises_an_error(
    name: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        new(name, **options)
