"""What was found about each broken law: the documentation, a report, or the reason in the code."""

ZERO_TIMES_NAN = (
    "A masked key has the weight 0, but 0 times NaN is NaN. The documentation does not promise "
    "anything else."
)
FLUSHED = (
    "On the CPU, XLA replaces subnormal numbers by 0, so a weight is 0 at a lead of 87.3 in "
    "float32, and of 708.4 in float64."
)

NOTES = {
    ("torch", "a_masked_nan_has_no_effect"): f"Reported: pytorch/pytorch#101967. {ZERO_TIMES_NAN}",
    ("transformers", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
    ("x-transformers", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
    ("x-transformers", "empty_axes"): (
        "It breaks for queries without elements. The scale is the width to the power -½, "
        "which fails for the width 0."
    ),
    ("x-transformers", "a_causal_mask_ends_at_the_last_key"): (
        "It breaks if there are more queries than keys, so that the first queries have no "
        "key. They get the mean of all values; or the first key with `flash`, which asks "
        "PyTorch for a causal mask that begins at the first key. With more keys than queries "
        "the mask ends at the last key."
    ),
    ("onnx", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
    ("onnx", "empty_axes"): (
        "It breaks without keys. The reference takes the maximum of an empty axis."
    ),
    ("onnx", "two_equations"): (
        "It breaks for a negative scale. The specification recommends that q and k are each "
        "multiplied by the root of the scale, and the reference does so; it does not say that "
        "the scale must be positive."
    ),
    ("flax", "where_weights_underflow"): FLUSHED,
    ("equinox", "where_weights_underflow"): FLUSHED,
    ("equinox", "empty_axes"): (
        "It breaks for queries without elements: the module computes the size of a head modulo 0."
    ),
    ("flax", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
    ("jax", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
    ("keras", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
    ("equinox", "a_masked_nan_has_no_effect"): ZERO_TIMES_NAN,
}
"""By package and law."""
