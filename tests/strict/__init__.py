"""The strict device, which replaces CuPy in tests without a GPU: NumPy with CuPy's restrictions.

Code written against an array module `xp` should run unchanged on NumPy and on CuPy.  NumPy
alone cannot test this, because it accepts much that CuPy does not accept.  So the tests run every
function a second time with `strict.xp` instead of NumPy.  The values are still NumPy's, but

* functions, methods and arguments that CuPy lacks are refused as CuPy refuses them, and so
  is every mixture of host and device arrays (TypeError);
* * what CuPy accepts but computes slowly or silently wrong raises `DeviceError`: hidden copies
  between host and device, out-of-range and repeated indices, float32 converted to float64;
* * what is only different behaves as on the device: reductions and `x[0]` are 0-d arrays, fresh
  results are in C order, `empty` is full of NaN, and nothing warns about overflow.

`put` and `get` copy between host and device, and `counts` counts launches and copies:

    import strict

    x = strict.put(np.ones(3, np.float32))
    y = strict.xp.exp(x)
    host = strict.get(y)
    strict.counts.to_host  # 1

It checks the code; rounding, races and speed of a GPU stay untested.
"""

from strict.device import Array, Counts, DeviceError, counts, get, put
from strict.functions import erf, xp

__all__ = ["Array", "Counts", "DeviceError", "counts", "erf", "get", "put", "xp"]
