"""What small fits and short runs come to, number by number: `fits.py` writes the table, and says when."""

import json

import numpy as np
import pytest

from golden.fits import CASES, TABLE, found

KNOWN = json.loads(TABLE.read_text("utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_it_comes_to_the_same_numbers(name):
    numbers = found(name)
    assert numbers.keys() == KNOWN[name].keys()
    for key, due in KNOWN[name].items():
        scale = max(map(abs, due), default=0.0)
        np.testing.assert_allclose(numbers[key], due, rtol=1e-5, atol=1e-5 * scale, err_msg=key)
