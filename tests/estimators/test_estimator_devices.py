"""`device=` of the estimator and of the command: what is missing is said at once, and results are NumPy's."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import rankfold as rf
from rankfold.cli.app import app

HAS_GPU = torch.cuda.is_available()
DATA = rf.data.random_completion((90, 80) if HAS_GPU else (8, 7), 1, 3.0, seed=0)
GIVEN = {"rank": 1, "bayesian": False, "random_state": 0}


@pytest.fixture
def gpu(monkeypatch):
    """A GPU; where there is none, torch on the CPU stands for it."""
    pytest.importorskip("triton")
    if HAS_GPU:
        return
    from rankfold.entries.gpu import GpuObserved

    class Here(GpuObserved):
        @staticmethod
        def from_triples(*entries, device=None):
            return GpuObserved.from_triples(*entries[:-1], device="cpu")

    for place in ("costs.completion", "entries.devices"):
        monkeypatch.setattr(f"rankfold.{place}.gpu_store", lambda device: Here)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "settings", [{"bias": False, "regularization": 0.0}, *([{"regularization": 0.1}] if HAS_GPU else [])]
)
def test_the_fit_is_that_of_the_cpu_in_numpy_and_can_be_saved(gpu, settings, tmp_path):
    settings = GIVEN | {"geometry": "full_rank", "max_iter": 1} | settings
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


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="too much for the interpreter")
def test_on_a_gpu_the_last_fit_is_one_on_a_geometry(gpu):
    with pytest.warns(ConvergenceWarning):
        model = rf.MatrixCompletion(regularization=0.1, device="auto", max_iter=1, **GIVEN).fit(DATA)
    assert model.trace_["gradients"].sum() > 0  # sweeps take none


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'auto', not 'gpu'"):
        rf.MatrixCompletion(rank=1, device="gpu").fit(DATA)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(RuntimeError, match="torch finds no GPU here"):
        rf.MatrixCompletion(rank=1, device="cuda").fit(DATA)
    settings = GIVEN | {"regularization": 0.5}
    models = [rf.MatrixCompletion(device=device, **settings).fit(DATA) for device in ("auto", "cpu")]
    np.testing.assert_array_equal(*(model.factors_[0] for model in models))


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_without_a_package(missing):
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == {missing!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Missing())
import rankfold as rf
rf.Completion([0], [0], [1.0], (2, 2), device="cuda")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"ImportError: device='cuda' needs torch and Triton ({missing} is not installed)" in done.stderr


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
