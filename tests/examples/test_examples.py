"""The examples of the documentation run, and show what they say."""

import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "examples"


def run(name):
    return runpy.run_path(str(FOLDER / f"{name}.py"))["main"]()


def test_robust_completion():
    errors = run("robust_completion")
    assert errors["huber 0.005"] <= 1e-3
    assert errors["square"] > 0.1


def test_one_bit():
    losses = run("one_bit")
    assert losses["fit"] < 1.1 * losses["planted"]
    assert losses["fit"] < 0.9 * losses["majority"]


def test_custom_cost():
    assert run("custom_cost") < 1e-4


def test_stock_returns():
    fit, mean = run("stock_returns")
    assert fit < mean


def test_drug_target():
    found, guess = run("drug_target")
    assert found > 0.5 > guess


def test_domain_adaptation():
    accuracy, guess = run("domain_adaptation")
    assert accuracy > 0.8 > guess


def test_ranking():
    parts = run("ranking")
    assert parts["ranker"] > parts["regression"] + 0.02
    assert parts["regression"] > parts["popularity"]


def test_all_are_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {
        "all_are_tested"
    }
    assert tested == {path.stem for path in FOLDER.glob("*.py")}
