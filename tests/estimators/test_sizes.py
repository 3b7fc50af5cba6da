"""Numbers near the ends of what floats can hold: scaled, or refused with the remedy; no NaN comes out."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.entries.given_arrays import check_size

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((60, 2)) @ RNG.standard_normal((2, 6))
HOLES = RNG.uniform(size=TABLE.shape) < 0.2
DATA = rf.data.random_completion((20, 15), 1, 4, seed=0)
PAIRS, Y = np.stack([DATA.rows, DATA.cols], axis=1), DATA.values + 1
X, RESPONSES = RNG.standard_normal((40, 6)), RNG.standard_normal((40, 3))
HUGE, TINY = "divide {} by 1e[+]1[56]", "vanish: divide {} by 1e-16"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("part", [0.9, 0.5, -0.5, -0.9])
def test_the_imputer_works_in_the_units_of_each_column(dtype, part):
    """Squares of these overflow, or vanish; powers of two change nothing but the unit."""
    unit = dtype(2.0) ** int(part * np.finfo(dtype).maxexp)
    table = np.where(HOLES, np.nan, TABLE).astype(dtype)
    plain = rf.LowRankImputer(1, tol=0.1).fit_transform(table)
    assert np.array_equal(rf.LowRankImputer(1, tol=0.1).fit_transform(table * unit), plain * unit)


def test_an_imputed_value_beyond_all_floats_is_refused():
    column = np.linspace(0.0, 1.0, 40)
    model = rf.LowRankImputer(1, tol=0.1).fit(np.stack([column, column * 1e307], axis=1))
    with pytest.raises(ValueError, match=r"what fills X\[:, 1\] overflows float64"):
        model.transform([[1e9, np.nan], [0.5, 0.5]])


def fitted():
    return rf.MatrixCompletion(1, regularization=1.0, random_state=0).fit(PAIRS, Y)


def minimised(values):
    return rf.minimize(rf.Problem.of(rf.Completion(DATA.rows, DATA.cols, values, DATA.shape), 1))


ENTRANCES = {
    "fit": (lambda s: rf.MatrixCompletion(1).fit(PAIRS, Y * s), "y"),
    "fit weights": (lambda s: rf.MatrixCompletion(1).fit(PAIRS, Y, np.full(Y.size, s)), "sample_weight"),
    "partial_fit": (lambda s: fitted().partial_fit([[0, 0]], [s]), "y"),
    "fold_in": (lambda s: fitted().fold_in([[0, 0]], [s]), "y"),
    "minimize": (lambda s: minimised(Y * s), "values"),
    "Completion weights": (
        lambda s: rf.Completion(DATA.rows, DATA.cols, Y, DATA.shape, np.full(Y.size, s)),
        "weights",
    ),
    "Regression X": (lambda s: rf.Regression(X * s, RESPONSES), "X"),
    "Regression Y": (lambda s: rf.Regression(X, RESPONSES * s), "Y"),
    "Pairs y": (lambda s: rf.Pairs(X, X, RESPONSES[:, 0] * s), "y"),
    "Pairs Z": (lambda s: rf.Pairs(X, X * s, RESPONSES[:, 0]), "Z"),
    "ReducedRankRegression X": (lambda s: rf.ReducedRankRegression(1).fit(X * s, RESPONSES), "X"),
    "ReducedRankRegression y": (lambda s: rf.ReducedRankRegression(1).fit(X, RESPONSES * s), "y"),
    "PairRegressor X": (lambda s: rf.PairRegressor(1).fit(X * s, RESPONSES[:, 0]), "X"),
    "PairRegressor y": (lambda s: rf.PairRegressor(1).fit(X, RESPONSES[:, 0] * s), "y"),
    "PairClassifier X": (lambda s: rf.PairClassifier(1).fit(X * s, RESPONSES[:, 0] > 0), "X"),
    "Nuclear": (lambda s: rf.Nuclear(1.0, np.full(3, s), np.ones(2)), "row_weights"),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize(("size", "remedy"), [(1e155, HUGE), (1e-160, TINY)])
def test_what_cannot_be_squared_is_refused_with_the_remedy(entrance, size, remedy):
    call, argument = ENTRANCES[entrance]
    with pytest.raises(ValueError, match=remedy.format(argument)):
        call(size)


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("size", [1e20, 1e-20])
@pytest.mark.filterwarnings("ignore")
def test_what_can_be_is_taken(entrance, size):
    assert ENTRANCES[entrance][0](size) is not None


@pytest.mark.parametrize("size", [1e20, 1e-20])
def test_single_precision_has_limits_of_its_own(size):
    with pytest.raises(ValueError, match=r"in float32 products .* divide y by 1e[+-]20"):
        rf.MatrixCompletion(1, dtype="float32").fit(PAIRS, Y / np.max(np.abs(Y)) * size)
    with pytest.raises(ValueError, match=r"in float32 products .* divide values by"):
        rf.Completion(DATA.rows, DATA.cols, (Y * size).astype(np.float32), DATA.shape)


@pytest.mark.parametrize("scale", [1e50, 1e-50])
def test_far_from_one_a_fit_is_the_same_in_other_units(scale):
    plain, other = (
        rf.MatrixCompletion(1, bias=False, regularization=0.0, random_state=0).fit(PAIRS, Y * unit)
        for unit in (1.0, scale)
    )
    np.testing.assert_allclose(other.predict(PAIRS) / scale, plain.predict(PAIRS), rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "y"), [(rf.ReducedRankRegression(1), RESPONSES), (rf.PairRegressor(1), RESPONSES[:, 0])]
)
def test_a_prediction_that_overflows_is_refused(model, y):
    model.fit(X, y * 1e9)
    with pytest.raises(ValueError, match=r"the prediction for X\[1\] overflows"):
        model.predict(X[:2] * [[1.0], [1e307]])


def test_a_mean_count_beyond_all_floats_is_the_largest():
    assert rf.Loss.named("poisson").expected(np.array([0.0, 800.0])).tolist() == [
        1.0,
        pytest.approx(np.finfo(float).max, rel=1e-9),
    ]


def test_the_largest_number_and_the_place_of_the_first_that_is_none_are_named():
    numbers = np.array([[1.0, -1e70], [1e65, 0.0]])
    with pytest.raises(ValueError, match=r"t\[0, 1\] is -1e\+70.*1e\+60 overflow: divide t by 1e\+70"):
        check_size("t", numbers)
    with pytest.raises(ValueError, match=r"t\[1, 0\] is inf"):
        check_size("t", np.array([[np.nan, 1e70], [np.inf, 0.0]]), holes=True)
    with pytest.raises(ValueError, match=r"t\[0, 0\] is nan"):
        check_size("t", np.array([[np.nan, 1e70]]))
    check_size("t", np.array([np.nan, 1.0]), holes=True)
    check_size("t", np.array([np.nan]), holes=True)
    check_size("t", np.zeros(3))
    check_size("t", np.array([]))
    check_size("t", np.array([1e60, 1e-300]))
