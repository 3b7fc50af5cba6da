"""Section 5.3: no operation of a geometry takes more than linear room in d1 and d2."""

import tracemalloc

import numpy as np
import pytest

from geometry.variants import VARIANTS, every

RANK = 2
OPERATIONS = {
    "metric": lambda g, x, xi, f: g.inner(x, xi, xi),
    "tangent": lambda g, x, xi, f: g.to_tangent(x, xi),
    "horizontal": lambda g, x, xi, f: g.to_horizontal(x, xi),
    "retraction": lambda g, x, xi, f: g.retract(x, xi),
    "gradient": lambda g, x, xi, f: g.gradient(x, *f[:2]),
    "hessian": lambda g, x, xi, f: g.hessian(x, xi, *f),
}


def peak(variant, operation, size):
    geometry = variant((size, 2 * size), RANK)
    x = geometry.random_point(seed=0)
    xi = geometry.random_tangent(x, 0)
    f = [np.ones((d, RANK)) for _ in range(2) for d in geometry.shape]
    operation(geometry, x, xi, f)  # whatever is made once
    tracemalloc.start()
    try:
        operation(geometry, x, xi, f)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@every
@pytest.mark.parametrize("operation", OPERATIONS)
def test_room_grows_with_the_sides_not_with_their_product(name, operation):
    small, large = (peak(VARIANTS[name], OPERATIONS[operation], size) for size in (2000, 8000))
    assert large <= 4.2 * small + 1e5
