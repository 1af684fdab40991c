"""A stand-in for CuPy that needs no GPU: NumPy behind a wrapper that says no.

Code written against an array module `xp` should run unchanged on NumPy and on CuPy.  NumPy
alone cannot test that: it forgives most of what a GPU does not.  So the tests run every
function a second time with `strict.xp` in NumPy's place.  The numbers are still NumPy's, but

* functions, methods and arguments that CuPy lacks are refused as CuPy refuses them, and so
  is every mixture of host and device arrays (TypeError);
* what CuPy accepts but gets slowly or silently wrong raises `DeviceError`: hidden copies
  between host and device, out-of-range and repeated indices, float32 turned into float64;
* what only differs behaves as on the device: reductions and `x[0]` are 0-d arrays, fresh
  results are in C order, `empty` is full of NaN, and nothing warns about overflow.

`put` and `get` are the border between host and device, and `counts` keeps its books:

    import strict

    x = strict.put(np.ones(3, np.float32))
    y = strict.xp.exp(x)
    host = strict.get(y)
    strict.counts.to_host  # 1

It is a check of the code, not a proof of the GPU: rounding, races and speed stay untested.
"""

from strict.device import Array, Counts, DeviceError, counts, get, put
from strict.functions import erf, xp

__all__ = ["Array", "Counts", "DeviceError", "counts", "erf", "get", "put", "xp"]
