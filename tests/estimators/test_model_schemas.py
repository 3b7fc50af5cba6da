"""A model file may come from anyone: what no fit could have found is refused, and reaches no kernel."""

import warnings

import numpy as np
import pytest

import rankfold as rf
from estimators.every_estimator import NAMES, example
from rankfold.estimators import model_files as files
from rankfold.estimators import schema_rules as rules
from rankfold.estimators.completion.bayes.calibration import Calibration
from rankfold.estimators.completion.side.learnt import LearntFeatures
from rankfold.estimators.completion.side.tables import Encoding
from rankfold.estimators.completion.side.traits import Traits
from rankfold.estimators.completion.streaming import Information
from rankfold.estimators.schema_completion import information, learnt_features, posterior
from rankfold.estimators.schemas import COUNT, FITTED, OPTIONAL, REAL, SETTINGS, WEIGHT, WHOLE


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A file of each model, and what is in it."""
    folder = tmp_path_factory.mktemp("models")
    for name in NAMES:
        rf.save(example(name).fitted(), folder / name)
    return folder


def rewritten(models, name, change):
    """The file of a model with its text and arrays changed, and a checksum that fits."""
    meta, arrays = files.MODELS.read(models / name)
    change(meta["model"], arrays)
    path = models / f"changed-{name}"
    with path.open("wb") as file:
        files.MODELS.write(file, meta, arrays)
    return path


def put(part, key, thing):
    return lambda tree, arrays: tree[part].update({key: thing})


def fitted(change, key, *way):
    """A change of the array that a fitted attribute refers to."""

    def apply(tree, arrays):
        place = tree["fitted"][key]
        for step in way:
            place = place[step]
        arrays[place["array"]] = change(arrays[place["array"]])

    return apply


def with_first(value):
    def change(array):
        array = array.copy()
        array.reshape(-1)[0] = value
        return array

    return change


LEFT, RIGHT = ("tuple", 0), ("tuple", 1)
POINTERS, INDICES = ("fields", "indptr"), ("fields", "indices")
WRONG = [
    ("MatrixCompletion", change, message)
    for change, message in [
        # what failures were found with
        (fitted(with_first(4_000_000_000), "observed_", *INDICES), "observed_.indices must be from 0"),
        (fitted(with_first(1), "observed_", *POINTERS), "observed_.indptr must be rising"),
        (fitted(lambda a: np.where(np.arange(a.size) == 3, 10**9, a), "observed_", *POINTERS), "rising"),
        (fitted(lambda a: a[:-1], "observed_", *POINTERS), "observed_.indptr has a length"),
        (fitted(lambda a: a.astype(np.int32), "observed_", *POINTERS), "not an array of 1 dim"),
        (fitted(lambda a: a[:-1], "observed_", *INDICES), "observed_.indices has a length"),
        (fitted(lambda a: a.astype(np.uint8), "observed_", *INDICES), "observed_.indices is"),
        (fitted(lambda a: a[:0], "observed_", *INDICES), "observed_.indices has a length"),
        (fitted(with_first(np.nan), "factors_", *LEFT), r"factors_\[0\] must be finite"),
        (fitted(with_first(-np.inf), "factors_", *RIGHT), r"factors_\[1\] must be finite"),
        (fitted(lambda a: a[1:], "factors_", *LEFT), r"factors_\[0\] has a length"),
        (fitted(lambda a: a[:, :1], "factors_", *RIGHT), r"factors_\[1\] has a length"),
        (fitted(lambda a: a.astype(np.float16), "factors_", *RIGHT), r"factors_\[1\] is an array"),
        (fitted(lambda a: a.astype("U9"), "factors_", *RIGHT), r"factors_\[1\] is an array"),
        (fitted(lambda a: a[:-1], "biases_", "fields", "rows"), "biases_.rows has a length"),
        (fitted(with_first(np.nan), "biases_", "fields", "cols"), "biases_.cols must be finite"),
        (put("fitted", "shape_", {"tuple": [10**12, 3]}), "has a length"),
        (put("fitted", "shape_", {"tuple": [-1, 3]}), "not a whole number of 1"),
        (put("fitted", "shape_", {"tuple": [True, 3]}), "not a whole number"),
        (put("fitted", "rank_", 0), "rank_ is 0"),
        (put("fitted", "rank_", 10**30), "rank_ is 1000"),
        (put("fitted", "rank_", "2"), "rank_ is '2'"),
        (put("fitted", "regularization_", -1.0), "regularization_ is -1.0"),
        (put("fitted", "regularization_", float("nan")), "regularization_ is nan"),
        (put("fitted", "predict", None), "'predict', which is no attribute"),
        (put("fitted", "__dict__", {"dict": {}}), "'__dict__', which is no attribute"),
        (put("fitted", "__init__", None), "'__init__', which is no attribute"),
        (put("fitted", "__class__", None), "'__class__', which is no attribute"),
        (put("fitted", "stop_kind_", "late"), "stop_kind_ is 'late'"),
        (put("fitted", "trace_", {"array": "array0"}), "trace_ is an array"),
        (put("fitted", "trace_", {"trace": {"array": "array0"}}), "no trace has the shape"),
        (
            lambda tree, arrays: tree["fitted"].update(row_labels_=tree["fitted"]["col_labels_"]),
            "col_labels_ has a length|row_labels_ has a length",
        ),
        (put("fitted", "rank_path_", 5), "rank_path_ is 5"),
        (lambda tree, arrays: tree["fitted"].pop("observed_"), "observed_ is missing"),
        (lambda tree, arrays: tree["fitted"].pop("stop_kind_"), "stop_kind_ is missing"),
        (put("settings", "__class__", 5), "unexpected keyword argument"),
        (put("settings", "bias", "yes"), "bias is 'yes'"),
        (put("settings", "tol", None), "tol is None"),
        (put("settings", "loss", {"loss": "square", "parameter": "x"}), "no value has the form"),
        (put("settings", "loss", {"loss": 5, "parameter": 0.0}), "loss must be one of"),
        (put("settings", "dtype", {"dtype": "f8,(9,9)f8"}), "no value has the form"),
        (put("settings", "geometry", {"geometry": "os"}), "no value has the form"),
        (put("settings", "geometry", 5), "geometry is 5"),
        (put("settings", "solver", 5), "solver is 5"),
        (put("settings", "solver", {"record": "os.system", "fields": {}}), "holds a os.system"),
        (put("settings", "random_state", "0"), "random_state is '0'"),
        (put("settings", "verbose", {"list": []}), "verbose is"),
    ]
] + [
    ("LowRankImputer", fitted(with_first(0.0), "noise_variance_"), "noise_variance_ must be finite and"),
    ("LowRankImputer", fitted(with_first(-1), "indicated_features_"), "indicated_features_ must be from 0"),
    ("LowRankImputer", fitted(with_first(6), "indicated_features_"), "indicated_features_ must be from 0"),
    ("LowRankImputer", fitted(lambda a: a[1:], "empty_features_"), "empty_features_ has a length"),
    ("LowRankImputer", put("fitted", "n_features_in_", 7), "has a length"),
    ("LowRankImputer", put("fitted", "_sklearn_output_config", {"dict": {"fit": "pandas"}}), "set_output"),
    ("PairRegressor", put("settings", "right", 5), "right is 5"),
    ("PairClassifier", fitted(lambda a: a[:1], "classes_"), "classes_ has a length"),
    ("PairRegressor", fitted(lambda a: a[1:], "left_coef_"), "left_coef_ has a length"),
    ("PairClassifier", fitted(lambda a: np.stack([a] * 3, 1), "factors_", *RIGHT), "classes_ has a length"),
    ("PairRanker", put("fitted", "n_comparisons_", 0), "n_comparisons_ is 0"),
    ("PairRanker", put("settings", "max_comparisons", "all"), "max_comparisons is 'all'"),
    ("CategoricalCompletion", put("settings", "shared", "yes"), "shared is 'yes'"),
    ("CategoricalCompletion", fitted(with_first(10**9), "categories_"), "categories_ must be from 0"),
    ("CategoricalCompletion", fitted(with_first(1), "starts_"), "starts_ must be rising"),
    ("CategoricalCompletion", fitted(lambda a: a[1:], "factors_", *LEFT), "row_labels_ has a length"),
    ("CategoricalCompletion", fitted(lambda a: a[1:], "factors_", *RIGHT), "starts_ must be rising"),
    ("CategoricalCompletion", fitted(lambda a: a[1:], "col_labels_"), "starts_ has a length"),
    ("CategoricalCompletion", fitted(with_first(np.nan), "class_prior_"), "class_prior_ must be finite"),
    ("ReducedRankRegression", fitted(lambda a: a[:, 1:], "coef_"), "has a length"),
    ("ReducedRankRegression", put("fitted", "target_names_", {"strings": ["a", 5]}), "no value has the form"),
]  # fmt: skip


@pytest.fixture(scope="module")
def sure(tmp_path_factory):
    """The file of a model that knows how sure it is."""
    folder = tmp_path_factory.mktemp("sure")
    rf.save(example("MatrixCompletion", bayesian=True).fitted(), folder / "MatrixCompletion")
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (fitted(with_first(np.nan), "posterior_", "fields", "rows"), "posterior_.rows must be finite"),
        (fitted(lambda a: a[1:], "posterior_", "fields", "cols"), "posterior_.cols has a length"),
        (fitted(lambda a: a[:, 1:], "posterior_", "fields", "cols"), "has a length"),
        (lambda tree, arrays: tree["fitted"]["posterior_"]["fields"].update(noise=-1.0), "noise is -1.0"),
        (lambda tree, arrays: tree["fitted"]["posterior_"]["fields"].update(sweeps=0.5), "sweeps is 0.5"),
        (lambda tree, arrays: tree["fitted"]["posterior_"]["fields"].update(priors=None), "priors is None"),
        (put("fitted", "posterior_", 5), "posterior_ is 5"),
        (put("settings", "bayesian", 1.5), "bayesian is 1.5"),
    ],
)
def test_a_posterior_that_does_not_fit_is_refused(sure, change, message):
    with pytest.raises(rf.ModelFileError, match=message):
        rf.load(rewritten(sure, "MatrixCompletion", change))


def test_a_posterior_of_other_unknowns_is_refused(sure):
    def change(tree, arrays):
        fields = tree["fitted"]["posterior_"]["fields"]
        for side in ("rows", "cols"):
            name = fields[side]["array"]
            arrays[name] = arrays[name][:, :5]

    with pytest.raises(rf.ModelFileError, match="3 unknowns and triangles of 5 numbers"):
        rf.load(rewritten(sure, "MatrixCompletion", change))


@pytest.mark.parametrize(("name", "change", "message"), WRONG)
def test_what_no_fit_could_have_found_is_refused(models, name, change, message):
    with pytest.raises(rf.ModelFileError, match=f"changed-{name}.*{message}"):
        rf.load(rewritten(models, name, change))


@pytest.mark.parametrize(
    "thing", [5, None, "model", [], {}, {"tuple": []}, {"estimator": "MatrixCompletion"}, {"array": "array0"},
              {"estimator": ["MatrixCompletion"], "settings": {}, "fitted": {}},
              {"estimator": "MatrixCompletion", "settings": 5, "fitted": {}},
              {"estimator": "MatrixCompletion", "settings": {}, "fitted": [1]}],
)  # fmt: skip
def test_a_file_without_a_model_is_refused(models, thing):
    path = models / "no-model"
    with path.open("wb") as file:
        files.MODELS.write(file, {"model": thing}, {"array0": np.ones(3)})
    with pytest.raises(rf.ModelFileError, match="no-model"):
        rf.load(path)


@pytest.mark.parametrize(
    ("data", "indices", "indptr"),
    [
        ([1.0, 1.0, 1.0], [0, 10**9, 2], [0, 1, 2, 3]),
        ([1.0, 1.0, 1.0], [0, -1, 2], [0, 1, 2, 3]),
        ([1.0, 1.0, 1.0], [0, 1, 2], [0, 2, 1, 3]),
        ([1.0, 1.0, 1.0], [0, 1, 2], [0, 1, 2, 1_500_000_000]),
        ([1.0, 1.0, 1.0], [0j, 1j, 2j], [0, 1, 2, 3]),
        ([1.0, 1.0, 1.0], [0.0, 1.0, 2.0], [0, 1, 2, 3]),
        (["a", "b", "c"], [0, 1, 2], [0, 1, 2, 3]),
    ],
)
def test_tables_whose_pointers_lead_out_of_them_are_refused(models, data, indices, indptr):
    def change(tree, arrays):
        parts = []
        for part in (data, indices, indptr):
            parts.append({"array": f"array{len(arrays)}"})
            arrays[parts[-1]["array"]] = np.array(part)
        tree["settings"]["right"] = {"sparse": {"tuple": parts}, "shape": [3, 3]}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(rf.ModelFileError, match="changed-PairRegressor"):
            rf.load(rewritten(models, "PairRegressor", change))


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_name_all_that_an_estimator_has(name):
    model = example(name).fitted()
    found = set(files.fitted_names(model))
    assert found | set(OPTIONAL) == set(FITTED[name])
    assert model.get_params(deep=False).keys() <= SETTINGS.keys()


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    model = example("MatrixCompletion").fitted()
    model.observed_ = model.observed_._replace(indices=np.full_like(model.observed_.indices, 4_000_000_000))
    with pytest.raises(ValueError, match=r"MatrixCompletion cannot be saved: observed_.indices must be"):
        rf.save(model, tmp_path / "model")
    model = example("MatrixCompletion").fitted()
    model.note_ = "mine"
    with pytest.raises(TypeError, match=r"MatrixCompletion.note_ is no attribute of a MatrixCompletion"):
        rf.save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_every_method_of_a_loaded_model_works(models):
    model, shown = rf.load(models / "MatrixCompletion"), example("MatrixCompletion")
    rows, cols = (np.unique(side)[:3] for side in np.asarray(shown.X).T)
    model.recommend(rows)
    model.similar(cols)
    model.fold_in([(rows[0], cols[0])], [1.0])
    model.partial_fit([(rows[0], cols[0])], [1.0])
    assert np.isfinite(model.predict(shown.X)).all()


@pytest.mark.parametrize(
    ("rule", "want", "good", "bad"),
    [
        (COUNT, "a whole number of 1 or more", [1, np.int64(7)], [0, 2.5, 1.0, True, "1", 2**63]),
        (WHOLE, "a whole number", [0, -3], [0.5, np.inf, False]),
        (REAL, "a number", [-1.5, 2, np.float32(1)], [np.inf, np.nan, True, None]),
        (WEIGHT, "a number of 0 or more", [0, 0.0, 2.5], [-1e-300, np.nan, -1]),
        (SETTINGS["shape"], "a whole number of 1 or more", [None, (1, 2)], [(2.5, 3), (3, 2.5), (0, 3)]),
        (FITTED["LowRankImputer"]["rank_"], "a whole number of 0 or more", [0, 3], [-1, 0.5]),
        (FITTED["MatrixCompletion"]["rank_"], "a whole number of 1 or more", [1, 3], [0]),
    ],
    ids=["count", "whole", "real", "weight", "shape", "rank of 0", "rank"],
)
def test_numbers_obey_their_rules(rule, want, good, bad):
    for value in good:
        rule(value, "it", {})
    for value in bad:
        with pytest.raises(ValueError, match=rf"^it.* is .*, not {want}"):
            rule(value, "it", {})


NAT = np.array(["2020-01-01", "NaT"], "M8[D]")
STRINGS, MIXED, TWICE = (np.array(each, dtype=object) for each in (["b", "a"], ["a", 5], ["a", "a"]))


@pytest.mark.parametrize(
    ("rule", "sizes", "good", "bad"),
    [
        (rules.counts("n"), {}, [np.array([0, 3]), np.arange(0)],
         [np.array([0, -1]), np.ones(2), np.int32([1])]),
        (rules.labels("n"), {}, [np.array([3, 1]), np.array(["b", "a"]), NAT[:1], STRINGS, np.arange(0)],
         [np.array([1, 2, 1]), np.array([3, 3]), np.array(["a", "b", "a"]), NAT, MIXED, TWICE, np.ones(1)]),
        (rules.names("n"), {}, [STRINGS, TWICE], [MIXED, np.array(["a"])]),
        (rules.reals("n"), {}, [np.array([-1.0]), np.float32([0]), np.zeros(0)],
         [np.array([np.nan]), np.array([1.0, np.inf]), np.arange(2), np.float16([1]), np.ones((1, 1)), 1.0]),
        (rules.reals("n", above=0.0), {}, [np.array([2.0, 1e-300]), np.zeros(0)],
         [np.array([2.0, 0.0]), np.array([np.nan]), np.array([np.inf])]),
        (rules.positions("n", "m", "i8 u4"), {"m": 3}, [np.array([0, 2]), np.uint32([1]), np.arange(0)],
         [np.array([-1, 0]), np.array([0, 3]), np.int32([0]), np.zeros(1)]),
        (rules.pointers("n", "all"), {}, [np.array([0]), np.array([0, 0, 2])],
         [np.array([1, 2]), np.array([0, 2, 1]), np.array([0, -1])]),
        (rules.pointers("n", "all"), {"n": 2, "all": 3}, [np.array([0, 1, 3])],
         [np.array([0, 1, 2]), np.array([0, 1, 4]), np.array([0, 3]), np.array([0, 1, 2, 3])]),
        (rules.reals("n", "m"), {"m": 2}, [np.ones((3, 2)), np.ones((0, 2))], [np.ones((2, 3)), np.ones(2)]),
        (rules.reals("n", 2), {}, [np.ones((3, 2))], [np.ones((3, 1)), np.ones((3, 3))]),
        (rules.reals("m+1"), {"m": 2}, [np.ones(3)], [np.ones(2), np.ones(4), np.ones(1)]),
        (rules.many(WHOLE, "n"), {"n": 2}, [(1, 2)], [[1, 2], (1,), (1, 0.5), (1, 2, 3)]),
        (rules.each(WHOLE, REAL), {}, [(1, 0.5)], [[1, 0.5], (1,), (0.5, 1), (1, 2, 3), None]),
        (rules.optional(WHOLE), {}, [None, 3], [0.5, "a"]),
        (rules.choice("a", "b"), {}, ["a", "b"], ["c", None, ["a"]]),
        (rules.size("n"), {"n": 2}, [2], [1, 3, 2.0, True]),
    ],
)  # fmt: skip
def test_arrays_and_tuples_obey_their_rules(rule, sizes, good, bad):
    for value in good:
        rule(value, "it", dict(sizes))
    for value in bad:
        with pytest.raises(ValueError, match=r"^it"):
            rule(value, "it", dict(sizes))


def test_a_size_is_known_from_the_first_that_has_it():
    sizes = {}
    rules.reals("n+1", "m")(np.ones((3, 4)), "it", sizes)
    assert sizes == {"n": 2, "m": 4}
    rules.pointers("n", "all")(np.array([0, 1, 5]), "it", sizes)
    assert sizes == {"n": 2, "m": 4, "all": 5}


def test_a_rule_that_was_not_obeyed_says_nothing_of_sizes():
    rule, sizes = rules.either(rules.each(rules.size("a"), WHOLE), rules.each(rules.size("b"), REAL)), {}
    rule((3, 0.5), "it", sizes)
    assert sizes == {"b": 3}
    rule((4, 1), "it", sizes)
    assert sizes == {"a": 4, "b": 3}


@pytest.mark.parametrize(("unknowns", "fits"), [(1, False), (2, True), (3, True), (4, False)])
def test_what_entries_said_is_of_factors_with_offsets_or_without(unknowns, fits):
    rows, cols = (np.ones((n, unknowns * (unknowns + 1) // 2)) for n in (4, 5))
    said = Information(rows, cols, np.ones(4), np.ones(5))
    if fits:
        information(said, "it", {"rank": 2})
    else:
        with pytest.raises(ValueError, match=f"it has triangles of {rows.shape[1]} numbers at rank 2"):
            information(said, "it", {"rank": 2})


def learnt(names=("a", "b"), categories=(None, STRINGS), width=2, features=3, expected=3):
    """Two inputs, the second with two categories, make three features; two traits of five lines."""
    traits = Traits(Encoding(names, categories, width), np.ones(features), np.ones((features, 2)))
    return LearntFeatures(traits, np.ones((3, expected)), np.ones((5, expected)), np.ones(expected))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ""),
        ({"names": None}, ""),
        ({"categories": None, "features": 2}, ""),
        ({"expected": 2}, ""),
        ({"names": ("a",)}, "length of 2, which must be 1"),
        ({"width": 3}, "has 3 inputs, and names or categories of others"),
        ({"width": 3, "names": None}, "has 3 inputs, and names or categories of others"),
        ({"width": 3, "categories": None, "features": 3}, "has 3 inputs, and names or categories of others"),
        ({"width": 2.0}, r"width is 2\.0, not a whole number of 1 or more"),
        ({"width": 1.5, "names": None, "categories": None}, r"width is 1\.5, not a whole number"),
        ({"features": 2}, "makes other numbers of its inputs than 2 features"),
        ({"features": 4}, "makes other numbers of its inputs than 4 features"),
        ({"expected": 1}, "expects 1 numbers of a line of rank 2"),
        ({"expected": 4}, "expects 4 numbers of a line of rank 2"),
        ({"names": (1, 2)}, "a string"),
    ],
)
def test_what_was_learnt_of_features_is_of_one_piece(change, message):
    rule, sizes = learnt_features("rows"), {"rows": 5, "rank": 2}
    if message:
        with pytest.raises(ValueError, match=f"^it.*{message}"):
            rule(learnt(**change), "it", sizes)
    else:
        rule(learnt(**change), "it", sizes)


def test_output_is_set_for_transform_in_a_way_that_there_is():
    rule = FITTED["LowRankImputer"]["_sklearn_output_config"]
    for way in ("default", "pandas", "polars"):
        rule({"transform": way}, "it", {})
    for wrong in (
        "table",
        {"transform": "table"},
        {"fit": "pandas"},
        {"transform": "pandas", "fit": "pandas"},
        {},
    ):
        with pytest.raises(ValueError, match=r"^it"):
            rule(wrong, "it", {})


def test_sizes_begin_at_one_and_counts_at_zero():
    with pytest.raises(ValueError, match="a whole number of 1 or more"):
        rules.size("n")(0, "it", {})
    shown = example("MatrixCompletion", bayesian=True).fitted()
    kept = shown.posterior_.calibration or Calibration(1.0, np.ones(3), 3)
    for held_out in (0, -1):
        shown.posterior_ = shown.posterior_._replace(calibration=kept._replace(held_out=held_out))
        sizes = {"rows": shown.shape_[0], "columns": shown.shape_[1], "rank": shown.rank_}
        if held_out < 0:
            with pytest.raises(ValueError, match="held_out is -1, not a whole number of 0 or more"):
                posterior(shown.posterior_, "it", sizes)
        else:
            posterior(shown.posterior_, "it", sizes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": -1.0}, "scale is -1.0"),
        ({"scores": np.array([np.nan])}, "scores must be finite"),
        ({"scores": None}, "scores is None"),
    ],
)
def test_a_calibration_that_no_errors_gave_is_refused(change, message):
    model = example("MatrixCompletion", bayesian=True).fitted()
    wrong = model.posterior_._replace(calibration=Calibration(1.0, np.ones(3), 3)._replace(**change))
    with pytest.raises(ValueError, match=message):
        posterior(wrong, "it", {"rows": model.shape_[0], "columns": model.shape_[1], "rank": model.rank_})
