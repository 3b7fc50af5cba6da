"""Every public entrance, given arrays of every kind: the clean array's answer, or an error by its name.

An array is *odd* if it holds the same numbers in another way: then the answer is the same (or, where the type
is not taken, the error names the argument). It is *wrong* if no answer is right: then there is an error that
names the argument. Nothing else may happen: no crash, no error from deep inside.
"""

import functools
import re
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import rankfold as rf
from rankfold.costs.offsets import GivenOffsets
from rankfold.data import Triples
from rankfold.entries.operators import Indicator, SparseMatrix

REFUSALS = (ValueError, TypeError, KeyError)


def changed(array, value, dtype=None):
    """The array with `value` for its first number."""
    array = np.array(array, dtype=dtype)
    array.flat[0] = value
    return array


def strided(array):
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def unaligned(array):
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    view = buffer[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def frozen(array):
    array = array.copy()
    array.setflags(write=False)
    return array


def mapped(array, folder):
    path = folder / "mapped.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def structured(array):
    return np.zeros(array.shape, [("a", int), ("b", float)])


ODD = {
    "big-endian": lambda a, _: a.astype(a.dtype.newbyteorder(">")),
    "read-only": lambda a, _: frozen(a),
    "memory-mapped": mapped,
    "strided": lambda a, _: strided(a),
    "Fortran": lambda a, _: np.asfortranarray(a),
    "reversed": lambda a, _: np.ascontiguousarray(a[::-1])[::-1],
    "unaligned": lambda a, _: unaligned(a),
    "mask without a hole": lambda a, _: np.ma.MaskedArray(a, np.zeros(a.shape, bool)),
    "list": lambda a, _: a.tolist(),
    "object": lambda a, _: a.astype(object),
    "float16": lambda a, _: a.astype(np.float16),
    "float32": lambda a, _: a.astype(np.float32),
    "float64": lambda a, _: a.astype(np.float64),
    "longdouble": lambda a, _: a.astype(np.longdouble),
}
ODD_INTEGERS = ODD | {
    f"{'u' * unsigned}int{bits}": lambda a, _, kind=f"{'u' * unsigned}int{bits}": a.astype(kind)
    for unsigned in (0, 1)
    for bits in (8, 16, 32, 64)
}
WRONG = {
    "masked": lambda a: np.ma.MaskedArray(a, changed(np.zeros(a.shape, bool), True)),
    "NaN": lambda a: changed(a, np.nan, float),
    "inf": lambda a: changed(a, np.inf, float),
    "NaT": lambda a: np.full(a.shape, "NaT", "M8[s]"),
    "structured": structured,
    "complex": lambda a: changed(a, 1j, complex),
    "0-d": lambda a: np.array(1, a.dtype),
    "empty": lambda a: a[:0],
    "too short": lambda a: a[:-1],
    "too long": lambda a: np.concatenate([a, a[:1]]),
    "a dimension more": lambda a: a[..., None, None],
    "bytes": lambda a: np.full(a.shape, b"a"),
    "None inside": lambda a: changed(a, None, object),
}
WRONG_INTEGERS = WRONG | {
    "negative": lambda a: changed(a, -7),
    "least int64": lambda a: changed(a, np.iinfo(np.int64).min),
    "a little too large": lambda a: changed(a, 5),
    "too large": lambda a: changed(a, 10**6),
    "2**32": lambda a: changed(a, 2**32),
    "largest int64": lambda a: changed(a, np.iinfo(np.int64).max),
    "largest uint64": lambda a: changed(a, np.iinfo(np.uint64).max, np.uint64),
    "2**70": lambda a: changed(a, 2**70, object),
    "fraction": lambda a: changed(a, 0.5, float),
    "1e300": lambda a: changed(a, 1e300, float),
    "bool": lambda a: a.astype(bool),
    "strings": lambda a: np.full(a.shape, "no"),
}
WRONG_NUMBERS = WRONG | {
    "1e2000": lambda a: changed(a, np.longdouble("1e2000"), np.longdouble),
    "1e200": lambda a: changed(a, 1e200),
    "1e-200": lambda a: a * 1e-200,
    "strings": lambda a: np.full(a.shape, "no"),
}


@dataclass(frozen=True)
class Entrance:
    """`call(array)` uses the argument that `name` matches; `clean` is a good array for it.

    `taken` are wrong arrays for which there is an answer all the same, `untried` those that are labels as
    good as others.
    """

    call: object
    clean: np.ndarray
    name: str
    taken: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()


ROWS, COLS = np.divmod(np.array([0, 1, 2, 4, 5, 6, 8, 9, 11, 12, 13, 14]), 3)
SHAPE = (5, 3)
VALUES = np.array([1.0, 2, 3, 4, 3, 2, 1, 2, 3, 4, 5, 0.5])
PAIRS = np.stack([ROWS, COLS], axis=1)
L, R = np.arange(5.0)[:, None] - 2, np.arange(3.0)[:, None] + 1
LEFT, RIGHT = np.arange(10.0).reshape(5, 2) % 3, np.arange(6.0).reshape(3, 2) % 4
X, Y = np.arange(24.0).reshape(12, 2) % 7, np.arange(36.0).reshape(12, 3) % 5
LENGTHS = ("empty", "too short", "too long")  # as good as any other length where there is no other argument
HOLES = ("masked", "NaN", "None inside")


def value(cost):
    return cost.value(np.ones((cost.shape[0], 1)), np.ones((cost.shape[1], 1)))


def completion(**change):
    return rf.Completion(**{"rows": ROWS, "cols": COLS, "values": VALUES, "shape": SHAPE} | change)


def model():
    return rf.MatrixCompletion(1, regularization=1.0, bias=False, random_state=0)


@functools.cache
def fitted():
    return model().fit(PAIRS, VALUES)


def refitted(X=PAIRS[:4], y=VALUES[:4], weights=None, how="partial_fit"):
    again = model()
    vars(again).update(vars(fitted()))
    return getattr(again, how)(X, y, weights).predict(PAIRS)


def tables(pairs):
    return rf.PairRegressor(1, left=LEFT, right=RIGHT, max_iter=20).fit(pairs, VALUES).predict(PAIRS)


def imputed(table):
    return rf.LowRankImputer(1, tol=0.1).fit_transform(table)


def regression(X=X, y=Y, weights=None):
    return rf.ReducedRankRegression(1, regularization=0.1).fit(X, y, weights).coef_


def pair_model(X=X, y=Y[:, 0], weights=None):
    return rf.PairRegressor(1, max_iter=20).fit(X, y, weights).left_coef_


CODES = np.array([1, 0, 2, 1, 0, 2, 1, 1, 0, 2, 0, 1])
BETTER, WORSE = np.array([0, 3, 5, 7]), np.array([1, 4, 2, 6])


def table(**change):
    given = {"rows": ROWS, "cols": COLS, "codes": CODES, "shape": SHAPE, "categories": np.array([3, 3, 3])}
    return rf.Multinomial(**given | change)


def ranked(**change):
    given = {"X": LEFT, "Z": RIGHT, "pairs": PAIRS, "better": BETTER, "worse": WORSE}
    return rf.RankedPairs(**given | change)


def ranker(X=PAIRS, y=VALUES, weights=None):
    model = rf.PairRanker(1, left=LEFT, right=RIGHT, regularization=1.0, max_iter=20)
    return model.fit(X, y, weights).predict(PAIRS)


def categories(X=PAIRS, weights=None):
    model = rf.CategoricalCompletion(1, max_iter=20)
    return model.fit(X, CODES, weights).predict_proba(PAIRS)


def triples(rows=ROWS, values=VALUES):
    return Triples(rows, COLS, values, SHAPE)


TRIPLETS = np.array([[0, 1, 2], [4, 3, 1], [2, 0, 3], [1, 4, 0]])
BETWEEN = np.array(
    [[0, 1], [0, 2], [3, 0], [4, 1], [1, 2], [3, 4], [2, 3], [2, 4], [1, 3], [0, 4], [4, 3], [2, 0]]
)


def placed(X=BETWEEN, y=VALUES, weights=None, points=LEFT):
    return distance(X, y, weights, points).predict(BETWEEN)


def distance(X=BETWEEN, y=VALUES, weights=None, points=LEFT):
    return rf.LowRankDistance(1, points=points, regularization=1.0, max_iter=20).fit(X, y, weights)


@functools.cache
def fitted_distance():
    return distance()


# A row or column never seen is no error for these: the mean is predicted, room is made for it.
LABELS = ("negative", "least int64", "strings", "too large", "2**32", "largest int64", "largest uint64")
NEW = ("a little too large", "too large", "2**32", "largest int64", "largest uint64", "2**70")
INDICES = {
    "Completion rows": Entrance(lambda a: value(completion(rows=a)), ROWS, "rows"),
    "Completion cols": Entrance(lambda a: value(completion(cols=a)), COLS, "cols"),
    "from_triples": Entrance(lambda a: value(rf.Completion.from_triples(triples(a))), ROWS, "rows"),
    "fit Triples": Entrance(lambda a: model().fit(triples(a)).predict(PAIRS), ROWS, "rows"),
    "Pairs": Entrance(lambda a: value(rf.Pairs(LEFT, RIGHT, VALUES, pairs=a)), PAIRS, "pairs"),
    "Distances": Entrance(lambda a: value(rf.Distances(a, VALUES, 5)), BETWEEN, "pairs"),
    "Triplets": Entrance(lambda a: value(rf.Triplets(a, 5)), TRIPLETS, "triplets", ("too short", "too long")),
    "LowRankDistance": Entrance(placed, BETWEEN, "X|samples?"),
    "LowRankDistance predict": Entrance(
        lambda a: fitted_distance().predict(a), BETWEEN, "X|samples?", ("too short", "too long")
    ),
    "Multinomial rows": Entrance(lambda a: value(table(rows=a)), ROWS, "rows"),
    "Multinomial cols": Entrance(lambda a: value(table(cols=a)), COLS, "cols"),
    "Multinomial codes": Entrance(lambda a: value(table(codes=a)), CODES, "codes|values"),
    "MultinomialPairs y": Entrance(
        lambda a: value(rf.MultinomialPairs(LEFT, RIGHT, a, 3, PAIRS)), CODES, "y|pairs"
    ),
    "RankedPairs pairs": Entrance(
        lambda a: value(ranked(pairs=a)), PAIRS, "pairs", ("too short", "too long")
    ),
    "RankedPairs better": Entrance(
        lambda a: value(ranked(better=a)), BETTER, "better", ("a little too large",)
    ),
    "RankedPairs worse": Entrance(lambda a: value(ranked(worse=a)), WORSE, "worse", ("a little too large",)),
    "PairRanker tables": Entrance(lambda a: ranker(X=a), PAIRS, "X|samples?"),
    "CategoricalCompletion": Entrance(lambda a: categories(X=a), PAIRS, "X", ("a little too large",), LABELS),
    "PairRegressor tables": Entrance(tables, PAIRS, "X|samples?"),
    "fit": Entrance(
        lambda a: model().fit(a, VALUES).predict(PAIRS), PAIRS, "X", ("a little too large",), LABELS
    ),
    "predict": Entrance(lambda a: fitted().predict(a), PAIRS, "X", (*NEW, *LENGTHS), LABELS[:3]),
    "predict_at rows": Entrance(lambda a: fitted().predict_at(a, COLS), ROWS, "rows"),
    "predict_at cols": Entrance(lambda a: fitted().predict_at(ROWS, a), COLS, "cols"),
    "partial_fit": Entrance(lambda a: refitted(a), PAIRS[:4], "X", ("a little too large",), LABELS),
    "fold_in": Entrance(
        lambda a: refitted(a, how="fold_in"), PAIRS[:4], "X", ("a little too large",), LABELS
    ),
    "recommend": Entrance(lambda a: fitted().recommend(a).scores, ROWS[:3], "rows?", ("0-d", *LENGTHS)),
    "similar": Entrance(lambda a: fitted().similar(a).cosines, COLS[:3], "columns?", ("0-d", *LENGTHS)),
}
NUMBERS = {
    "Completion values": Entrance(lambda a: value(completion(values=a)), VALUES, "values"),
    "Completion weights": Entrance(lambda a: value(completion(weights=a)), VALUES, "weights"),
    "from_dense": Entrance(
        lambda a: value(rf.Completion.from_dense(a)), Y, "array|values", (*HOLES, *LENGTHS)
    ),
    "fit Triples values": Entrance(
        lambda a: model().fit(triples(values=a)).predict(PAIRS), VALUES, "values|y"
    ),
    "fit y": Entrance(lambda a: model().fit(PAIRS, a).predict(PAIRS), VALUES, "y", ("a dimension more",)),
    "fit weights": Entrance(lambda a: model().fit(PAIRS, VALUES, a).predict(PAIRS), VALUES, "sample_weight"),
    "partial_fit y": Entrance(lambda a: refitted(y=a), VALUES[:4], "y"),
    "fold_in y": Entrance(lambda a: refitted(y=a, how="fold_in"), VALUES[:4], "y"),
    "fold_in weights": Entrance(
        lambda a: refitted(weights=a, how="fold_in"), VALUES[:4], "sample_weight", ("0-d",)
    ),
    "Pairs X": Entrance(
        lambda a: value(rf.Pairs(a, RIGHT, VALUES, pairs=PAIRS)), LEFT, "X|pairs", ("too long",)
    ),
    "Pairs y": Entrance(lambda a: value(rf.Pairs(LEFT, RIGHT, a, pairs=PAIRS)), VALUES, "y|pairs"),
    "Pairs weights": Entrance(
        lambda a: value(rf.Pairs(LEFT, RIGHT, VALUES, pairs=PAIRS, weights=a)), VALUES, "weights"
    ),
    "Distances values": Entrance(lambda a: value(rf.Distances(BETWEEN, a)), VALUES, "values"),
    "Distances weights": Entrance(
        lambda a: value(rf.Distances(BETWEEN, VALUES, weights=a)), VALUES, "weights"
    ),
    "Distances features": Entrance(
        lambda a: value(rf.Distances(BETWEEN, VALUES, features=a)), LEFT, "features|pairs", ("too long",)
    ),
    "LowRankDistance y": Entrance(lambda a: placed(y=a), VALUES, "y|samples?"),
    "LowRankDistance weights": Entrance(lambda a: placed(weights=a), VALUES, "sample_weight"),
    "LowRankDistance transform": Entrance(lambda a: fitted_distance().transform(a), LEFT, "X", LENGTHS[1:]),
    "Multinomial weights": Entrance(lambda a: value(table(weights=a)), VALUES, "weights"),
    "RankedPairs weights": Entrance(lambda a: value(ranked(weights=a)), VALUES[:4], "weights"),
    "PairRanker y": Entrance(lambda a: ranker(y=a), VALUES, "y|samples?"),
    "PairRanker weights": Entrance(lambda a: ranker(weights=a), VALUES, "sample_weight"),
    "CategoricalCompletion weights": Entrance(lambda a: categories(weights=a), VALUES, "sample_weight"),
    "Regression X": Entrance(lambda a: value(rf.Regression(a, Y)), X, "X"),
    "Regression Y": Entrance(lambda a: value(rf.Regression(X, a)), Y, "Y", HOLES),
    "ReducedRankRegression X": Entrance(lambda a: regression(X=a), X, "X|samples?"),
    "ReducedRankRegression y": Entrance(lambda a: regression(y=a), Y, "y|samples?", HOLES),
    "ReducedRankRegression weights": Entrance(lambda a: regression(weights=a), VALUES, "sample_weight"),
    "PairRegressor X": Entrance(lambda a: pair_model(X=a), X, "X|samples?"),
    "PairRegressor y": Entrance(lambda a: pair_model(y=a), Y[:, 0], "y|samples?"),
    "PairRegressor weights": Entrance(lambda a: pair_model(weights=a), VALUES, "sample_weight"),
    "LowRankImputer": Entrance(
        imputed, Y, "X|samples?", (*HOLES, "1e200", "1e-200", "too short", "too long")
    ),
    "GivenOffsets": Entrance(lambda a: value(GivenOffsets(completion(), a, np.zeros(3))), VALUES[:5], "rows"),
    "Nuclear": Entrance(
        lambda a: value(rf.Nuclear(1.0, a, np.ones(2))), VALUES, "row_weights", ("too short", "too long")
    ),
    "evaluate": Entrance(
        lambda a: completion().evaluate(a, R).f_L, L, "L|factors?", ("NaN", "inf", "1e200", "1e-200")
    ),
    "Indicator": Entrance(
        lambda a: Indicator(completion().observed) @ a, R, "X|factors?", ("NaN", "inf", "1e200", "1e-200")
    ),
    "SparseMatrix": Entrance(
        lambda a: SparseMatrix(completion().observed, (a, VALUES)) @ R,
        VALUES,
        "values",
        ("NaN", "inf", "1e200", "1e2000", "1e-200"),
    ),
}


def outcome(entrance, array):
    """Nothing if the answer is finite or the error names the argument; else what is wrong."""
    try:
        answer = entrance.call(array)
    except REFUSALS as error:
        named = re.search(rf"\b({entrance.name})\b", str(error))
        return None, "" if named else f"{type(error).__name__}: {error}"
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return answer, ""


@pytest.mark.parametrize("name", [*INDICES, *NUMBERS])
@pytest.mark.filterwarnings("ignore")
def test_the_same_numbers_in_another_way_have_the_same_answer(name, tmp_path):
    entrance = (INDICES | NUMBERS)[name]
    clean = entrance.call(entrance.clean)
    for kind, make in (ODD_INTEGERS if name in INDICES else ODD).items():
        answer, wrong = outcome(entrance, make(entrance.clean, tmp_path))
        assert not wrong, f"{kind}: {wrong}"
        if answer is not None:
            np.testing.assert_allclose(answer, clean, rtol=1e-4, atol=1e-4, err_msg=kind)
        else:  # integers as such are always taken, and so are numbers of the precisions there are
            assert kind in ("object", "float16", "float32", "float64", "longdouble"), kind


@pytest.mark.parametrize("name", [*INDICES, *NUMBERS])
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_right_answer_is_refused_by_name(name):
    entrance = (INDICES | NUMBERS)[name]
    for kind, make in (WRONG_INTEGERS if name in INDICES else WRONG_NUMBERS).items():
        if kind in entrance.untried:
            continue
        answer, wrong = outcome(entrance, make(entrance.clean))
        assert not wrong, f"{kind}: {wrong}"
        assert answer is None or kind in entrance.taken, f"{kind} was taken"


def ruined(part, at, number):
    matrix = sparse.csr_array(np.ones((3, 4)))
    getattr(matrix, part)[at] = number
    return matrix


@pytest.mark.parametrize(
    "matrix",
    [ruined("indptr", 1, 1_500_000_000), ruined("indices", 2, 2_000_000_000), ruined("indices", 0, -5)],
    ids=["pointers that do not ascend", "an index too large", "a negative index"],
)
def test_ruined_sparse_matrices_are_refused_by_name(matrix):
    """SciPy's loops trust them, and would leave their arrays."""
    with pytest.raises(ValueError, match="matrix is not a valid sparse matrix"):
        rf.Completion.from_sparse(matrix)
    with pytest.raises(ValueError, match="X is not a valid sparse matrix"):
        rf.Regression(matrix, np.ones((3, 2)))
    with pytest.raises(ValueError, match="left is not a valid sparse matrix"):
        rf.PairRegressor(1, left=matrix, right=RIGHT).fit([[0, 0], [1, 1]], [1.0, 2.0])
    with pytest.raises(ValueError, match="X is not a valid sparse matrix"):
        rf.LowRankImputer(1).fit(matrix)


def test_the_positions_of_a_model_are_checked_before_a_kernel_goes_by_them():
    own = model().fit(PAIRS, VALUES)
    with pytest.raises(ValueError, match="read-only"):
        own.observed_.indices[:] = 4_000_000_000
    own.observed_ = own.observed_._replace(indices=np.full_like(own.observed_.indices, 4_000_000_000))
    with pytest.raises(ValueError, match="an index is 4000000000, and there are 3 columns"):
        own.partial_fit(PAIRS[:1], VALUES[:1])


def test_masked_numbers_are_missing():
    mask = np.zeros(Y.shape, bool)
    mask[::5, 1] = mask[3, 0] = True
    masked, holes = np.ma.MaskedArray(np.where(mask, 99.0, Y), mask), np.where(mask, np.nan, Y)
    assert np.array_equal(imputed(masked), imputed(holes))
    assert np.array_equal(regression(y=masked), regression(y=holes))
    assert value(rf.Completion.from_dense(masked)) == value(rf.Completion.from_dense(holes))
    assert value(rf.Regression(X, masked)) == value(rf.Regression(X, holes))
    marked = rf.LowRankImputer(1, tol=0.1, missing_values=-1)
    assert np.array_equal(marked.fit_transform(masked.astype(int)), imputed(holes))
