"""The operator Attention of ONNX, by ONNX's reference implementation in NumPy."""

import math
from functools import cache
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from subject import ALL, Subject

Array = np.ndarray
OPSET = 23
"""The first version of ONNX's operators that has Attention."""


@cache
def model(kind: int, masked: bool, **attributes: Any) -> ReferenceEvaluator:
    """A model of this one operator."""
    names = ["q", "k", "v", *(["mask"] if masked else [])]
    inputs = [helper.make_tensor_value_info(
        n, TensorProto.BOOL if n == "mask" else kind, [None] * 4) for n in names]  # fmt: skip
    output = helper.make_tensor_value_info("y", kind, [None] * 4)
    node = helper.make_node("Attention", names, ["y"], **attributes)
    graph = helper.make_graph([node], "attention", inputs, [output])
    return ReferenceEvaluator(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    )


def attention(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    """Attention of four axes."""
    (*lead, T, _), E = q.shape, v.shape[-1]
    arrays = {"q": q, "k": k, "v": v} | ({} if mask is None else {"mask": mask})
    for name, x in arrays.items():
        *_, rows, columns = x.shape
        arrays[name] = x.reshape(math.prod(lead), 1, rows, columns)
    attributes = {"is_causal": int(causal)} | ({} if scale is None else {"scale": scale})
    kind = helper.np_dtype_to_tensor_dtype(q.dtype)
    (y,) = model(kind, mask is not None, **attributes).run(None, arrays)
    return np.asarray(y).reshape(*lead, T, E)


SUBJECTS = [
    Subject("Attention (reference)", "onnx", attention, ALL - {"float64", "grad"},
            {"causal_from": "start"}),
]  # fmt: skip
