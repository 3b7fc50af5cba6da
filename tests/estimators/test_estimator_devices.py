"""`device=` of the estimator and of the command: what is missing is said at once, and results are NumPy's."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from array_api_compat import is_torch_array
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import rankfold as rf
from gpu_stand_in import HAS_GPU, stand_in
from rankfold.cli.app import app
from rankfold.estimators.fitting import warm_point
from rankfold.estimators.regression.free_offsets import FreeOffsets

DATA = rf.data.random_completion((90, 80) if HAS_GPU else (8, 7), 1, 3.0, seed=0)
GIVEN = {"rank": 1, "bayesian": False, "random_state": 0}


@pytest.fixture
def gpu(monkeypatch):
    """A GPU; where there is none, torch on the CPU stands for it."""
    pytest.importorskip("triton")
    stand_in(monkeypatch)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "settings", [{"bias": False, "regularization": 0.0}, *([{"regularization": 0.1}] if HAS_GPU else [])]
)
def test_the_fit_is_that_of_the_cpu_in_numpy_and_can_be_saved(gpu, settings, tmp_path):
    settings = GIVEN | {"geometry": "full_rank", "solver": "cg", "max_iter": 1} | settings
    with pytest.warns(ConvergenceWarning):
        models = [rf.MatrixCompletion(device=device, **settings).fit(DATA) for device in ("cpu", "cuda")]
    assert all(type(part) is np.ndarray for part in (*models[1].factors_, *models[1].biases_[1:]))
    for one, two in zip(models[0].biases_, models[1].biases_, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-8)
    W = [L @ R.T for L, R in (model.factors_ for model in models)]
    np.testing.assert_allclose(W[1], W[0], rtol=1e-6, atol=1e-8)
    rf.save(models[1], tmp_path / "model.rankfold")
    loaded = rf.load(tmp_path / "model.rankfold")
    assert loaded.device == "cuda"
    np.testing.assert_array_equal(loaded.factors_[0], models[1].factors_[0])


def samples(holes=0.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40 if HAS_GPU else 8, 5))
    Y = X @ rng.standard_normal((5, 4)) + 0.1 * rng.standard_normal((len(X), 4))
    return X, np.where(rng.uniform(size=Y.shape) < holes, np.nan, Y)


def fits(kind, device):
    """A model of each kind, fitted, and then once more from where it ended."""
    X, Y = samples(0.3 if "holes" in kind else 0.0)
    few = {"rank": 2, "max_iter": 3 if HAS_GPU else 1, "warm_start": True, "device": device}
    match kind:
        case "PairRegressor":
            model, y = rf.PairRegressor(n_left=3, **few), Y[:, 0]
        case "PairClassifier":
            model, y = rf.PairClassifier(n_left=3, **few), np.where(Y[:, 0] > 0, "yes", "no")
        case "three classes":
            model, y = rf.PairClassifier(n_left=3, **few), np.arange(len(Y)) % 3
        case "PairRanker":
            model, y = rf.PairRanker(n_left=3, max_comparisons=9, random_state=0, **few), Y[:, 0]
        case "regression":
            model, y = rf.ReducedRankRegression(**few | {"rank": "auto"}, random_state=0), Y
        case _:
            intercept = HAS_GPU  # many passes to find offsets
            model = rf.ReducedRankRegression(regularization=0.1, fit_intercept=intercept, **few)
            y = Y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of so few iterations
        answers = [model.fit(X, y).predict(X)]
        if HAS_GPU:
            answers.append(model.fit(X, y).predict(X))
    return model, answers


@pytest.mark.gpu
@pytest.mark.parametrize(
    "kind",
    ["PairRegressor", "PairClassifier", "three classes", "PairRanker", "regression", "regression with holes"],
)
def test_fits_on_a_gpu_are_those_of_the_cpu(gpu, kind, tmp_path, monkeypatch):
    if kind in ("PairClassifier", "three classes", "PairRanker") and not HAS_GPU:
        pytest.skip("too much for the interpreter")
    _, expected = fits(kind, "cpu")
    if kind == "regression" and not HAS_GPU:  # a closed form: no kernels are asked for
        monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    model, found = fits(kind, "cuda")
    for one, two in zip(found, expected, strict=True):
        if one.dtype.kind != "f":
            assert (one == two).all()
        else:
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-7)  # offsets are solved for by iterations
    arrays = [*getattr(model, "factors_", ()), getattr(model, "coef_", None), model.trace_["value"]]
    assert {type(array) for array in arrays if array is not None} == {np.ndarray}
    rf.save(model, tmp_path / "model.rankfold")
    assert rf.load(tmp_path / "model.rankfold").device == "cuda"


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="too much for the interpreter")
def test_a_rank_is_chosen_there(gpu):
    X, Y = samples()
    ranks = [
        rf.PairRegressor(n_left=3, device=device, random_state=0).fit(X, Y[:, 0]).rank_
        for device in ("cpu", "cuda")
    ]
    assert ranks[0] == ranks[1]


def test_a_point_of_an_earlier_fit_is_one_on_the_device(gpu):
    """Warm starts are tensors, too, where the data are."""
    X, Y = samples()
    cost = rf.Pairs(X[:, :3], X[:, 3:], Y[:, 0]).on("cuda") + rf.Frobenius(0.1)
    L, R = (cost.as_factor(np.arange(2.0 * d).reshape(d, 2)) for d in cost.shape)
    assert is_torch_array(L)
    point = warm_point(rf.Problem.of(cost, 2), L, R)
    assert all(map(is_torch_array, point))
    assert (point[0] @ point[1].T - L @ R.T).abs().max() < 1e-10
    assert type((0.5 * rf.Pairs(X, X, Y[:, 0])).as_factor(np.ones((5, 1)))) is np.ndarray


@pytest.mark.gpu
@pytest.mark.parametrize("loss", ["poisson", *(["huber", "logistic"] if HAS_GPU else [])])
def test_the_best_offsets_for_other_losses(gpu, loss):
    """Those of the CPU, and so are values and derivatives; lines without curvature take shorter steps."""
    from rankfold.estimators.regression.free_offsets_on_gpu import GpuFreeOffsets

    rng = np.random.default_rng(1)
    _, Y = samples(0.3)
    rows, cols = np.nonzero(~np.isnan(Y[:5]))
    values = 5.0 * Y[rows, cols] if loss == "huber" else rng.integers(0, 2, rows.size) * 1.0
    values *= 9.0 if loss == "poisson" else 1.0
    cost = rf.Completion(rows, cols, values, (5, 4), rng.uniform(0.5, 2.0, rows.size), loss)
    plain, moved = FreeOffsets(cost), GpuFreeOffsets(cost.on("cuda"))
    L, R, dL, dR = (0.3 * rng.standard_normal((d, 1)) for d in (5, 4) * 2)
    tall = [moved.completion.store.asarray(A) for A in (L, R, dL, dR)]
    np.testing.assert_allclose(moved.offsets(*tall[:2]), plain.offsets(L, R), rtol=1e-6, atol=1e-6)
    value, f_L, _ = moved.evaluate(*tall[:2])
    np.testing.assert_allclose([value, moved.value(L, R)], [plain.value(L, R)] * 2, rtol=1e-10)
    np.testing.assert_allclose(f_L.cpu(), plain.evaluate(L, R).f_L, rtol=1e-6, atol=1e-6)
    change, _ = moved.derivative(*tall)
    np.testing.assert_allclose(change.cpu(), plain.derivative(L, R, dL, dR)[0], rtol=1e-5, atol=1e-6)


def test_a_loss_of_one_s_own_is_refused(gpu):
    own = rf.Loss.from_functions(lambda w, y: (w - y) ** 4, lambda w, y: 4 * (w - y) ** 3, lambda w, y: 12.0)
    with pytest.raises(TypeError, match="on a GPU the loss must be built in"):
        rf.ReducedRankRegression(1, regularization=1.0, loss=own, device="cuda").fit(*samples())


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="too much for the interpreter")
def test_on_a_gpu_the_last_fit_is_one_on_a_geometry(gpu):
    with pytest.warns(ConvergenceWarning):
        model = rf.MatrixCompletion(regularization=0.1, device="auto", max_iter=1, **GIVEN).fit(DATA)
    assert model.trace_["gradients"].sum() > 0  # sweeps take none


@pytest.mark.parametrize(
    "model", [rf.MatrixCompletion, rf.PairRegressor, rf.PairRanker, rf.ReducedRankRegression]
)
def test_an_unknown_device_is_refused(model):
    data = (DATA,) if model is rf.MatrixCompletion else (samples()[0], samples()[1][:, 0])
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'auto', not 'gpu'"):
        model(rank=1, device="gpu").fit(*data)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(RuntimeError, match="torch finds no GPU here"):
        rf.MatrixCompletion(rank=1, device="cuda").fit(DATA)
    for model in (rf.PairRegressor, rf.ReducedRankRegression):
        with pytest.raises(RuntimeError, match="torch finds no GPU here"):
            model(rank=1, device="cuda").fit(samples()[0], samples()[1][:, 0])
    settings = GIVEN | {"regularization": 0.5}
    models = [rf.MatrixCompletion(device=device, **settings).fit(DATA) for device in ("auto", "cpu")]
    np.testing.assert_array_equal(*(model.factors_[0] for model in models))


def test_without_triton(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(
        ImportError, match=r"device='cuda' needs torch and Triton \(triton is not installed\)"
    ):
        rf.Completion([0], [0], [1.0], (2, 2), device="cuda")


def test_without_torch():
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)
sys.meta_path.insert(0, Missing())
import rankfold as rf
rf.Completion([0], [0], [1.0], (2, 2), device="cuda")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: device='cuda' needs torch and Triton (torch is not installed)" in done.stderr


def test_the_command(tmp_path):
    path = tmp_path / "data.csv"
    lines = zip(DATA.rows, DATA.cols, DATA.values, strict=True)
    path.write_text("".join(f"{i},{j},{v}\n" for i, j, v in lines))
    wrong = CliRunner().invoke(app, ["complete", str(path), "--device", "tpu"])
    assert wrong.exit_code == 2
    assert "--device is cpu, cuda or auto" in wrong.output
    arguments = ["--rank", "1", "--regularization", "1", "--no-bayesian", "--device", "auto"]
    assert CliRunner().invoke(app, ["complete", str(path), *arguments]).exit_code == 0
    if not HAS_GPU:
        refused = CliRunner().invoke(app, ["complete", str(path), *arguments[:-1], "cuda"])
        assert refused.exit_code != 0
        assert "torch finds no GPU here" in refused.output + str(refused.exception)


def test_the_command_for_tables(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(f"{k},{2 * k % 5}\n" for k in range(9)))
    words = ["regress", str(path), "--target", "y", "--rank", "1", "--regularization", "1", "--device"]
    wrong = CliRunner().invoke(app, [*words, "tpu"])
    assert wrong.exit_code == 2
    assert "--device is cpu, cuda or auto" in wrong.output
    assert CliRunner().invoke(app, [*words, "auto"]).exit_code == 0
    if not HAS_GPU:
        refused = CliRunner().invoke(app, [*words, "cuda"])
        assert refused.exit_code != 0
        assert "torch finds no GPU here" in refused.output + str(refused.exception)
