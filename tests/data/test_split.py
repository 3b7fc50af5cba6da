import numpy as np
import pytest

from rankfold.data import Triples, held_out_mask, random_completion, split
from rankfold.data.triples import index_dtype


def labelled(count=50):
    rng = np.random.default_rng(0)
    names = np.array([f"u{i}" for i in range(7)])
    return Triples(rng.integers(7, size=count), rng.integers(5, size=count), rng.random(count), (7, 5), names)


@pytest.mark.parametrize("triples", [labelled(), random_completion((20, 10), 2, 3, seed=0)])
@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.33, 1.0])
def test_the_parts_are_the_whole_in_its_order(triples, fraction):
    train, test = split(triples, fraction, seed=3)
    mask = held_out_mask(len(triples), fraction, seed=3)
    assert len(test) == round(fraction * len(triples))
    for part, chosen in ((train, ~mask), (test, mask)):
        assert type(part) is type(triples)
        assert part.shape == triples.shape
        assert part.row_labels is triples.row_labels
        for name in ("rows", "cols", "values"):
            assert (getattr(part, name) == getattr(triples, name)[chosen]).all()


def test_the_split_is_the_published_one():
    train = np.sort(np.random.default_rng(0).permutation(1000)[:800])
    assert (np.flatnonzero(~held_out_mask(1000, 0.2, seed=0)) == train).all()


def test_a_fifth_is_held_out_if_nothing_is_said():
    assert held_out_mask(50).sum() == len(split(labelled())[1]) == 10
    assert (held_out_mask(50) == held_out_mask(50, 0.2, 0)).all()
    assert (split(labelled())[1].values == split(labelled(), 0.2, 0)[1].values).all()


def test_seeds_differ():
    assert (held_out_mask(100, 0.5, 1) != held_out_mask(100, 0.5, 2)).any()


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
def test_a_fraction_is_a_fraction(fraction):
    with pytest.raises(ValueError, match="held_out must be a fraction between 0 and 1"):
        split(labelled(), fraction)


def test_arrays_that_disagree_are_refused():
    one = np.zeros(1, int)
    with pytest.raises(ValueError, match="equally long, got 1, 2 and 1"):
        Triples(one, np.zeros(2, int), one, (1, 1))
    with pytest.raises(ValueError, match="col_labels holds 2 labels for a side of length 1"):
        Triples(one, one, one, (1, 1), col_labels=np.array(["a", "b"]))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("rows", np.zeros(2), "integers in one dimension, got float64 in 1 dimensions"),
        ("cols", np.zeros((2, 1), int), "integers in one dimension, got int64 in 2 dimensions"),
        ("values", np.zeros(2, complex), "real numbers in one dimension, got complex128"),
    ],
)
def test_arrays_of_the_wrong_kind_are_refused(name, array, message):
    good = {"rows": np.zeros(2, int), "cols": np.zeros(2, int), "values": np.ones(2), "shape": (1, 1)}
    with pytest.raises(ValueError, match=f"{name} must be an array of {message}"):
        Triples(**good | {name: array})


def test_positions_take_64_bits_only_where_the_shape_needs_them():
    assert index_dtype((3, 2**31)) is index_dtype((2**31, 3)) is np.int32
    assert index_dtype((3, 2**31 + 1)) is index_dtype((2**31 + 1, 3)) is np.int64


def test_triples_show_how_many_they_are_and_what_their_columns_are_called():
    rows = np.zeros(1200, int)
    plain = Triples(rows, rows, np.ones(1200), (3, 4000))
    assert repr(plain) == "<Triples: 1,200 entries of a 3 × 4,000 matrix>"
    named = Triples(rows, rows, np.ones(1200), (3, 4000), names=("who", "film", "stars"))
    assert repr(named) == "<Triples: 1,200 entries of a 3 × 4,000 matrix: 'who', 'film', 'stars'>"
    assert len(named) == 1200
