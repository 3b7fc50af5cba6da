"""The baselines beside their authors' codes, run by GNU Octave on the same instances from the same start.

    python -m benchmarks.originals CODES [--instances P1 P3 P7] [--seeds 0 1 2] [--only NAME ...]
    python -m benchmarks.originals CODES --instances P6 P7 --only SVP OptSpace

CODES is a folder with checkouts of the authors' repositories: LMaFit (optsuite/LMaFit), RTRMC
(NicolasBoumal/RTRMC), MatrixIRLS (ckuemmerle/MatrixIRLS, which brings Vandereycken's LRGeomCG), manopt
(NicolasBoumal/manopt) and lrslibrary (andrewssobral/lrslibrary, which brings SVP and OptSpace; these two are
run when asked for, as OptSpace forms dense matrices). Their mex functions are replaced by Octave functions in
benchmarks/octave, and the lines that change a sparse matrix in place by ones that make a new one, so that
nothing has to be compiled: counts are compared, not seconds. Start: the rank-r SVD of the zero-filled data
as they are (SVP: its own first projection, from W = 0); end: f ≤ 1e-20.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

import rankfold as rf
from benchmarks import instances
from benchmarks.baselines import cases, count, plain_start

OURS = Path(__file__).parent / "octave"
SPARSE = "LMaFit", "RTRMC-1", "RTRMC-2", "LRGeomCG", "LRGeom trust region"
METHODS = *SPARSE, "SVP", "OptSpace"
LRGEOM = "MatrixIRLS/algorithms/LRGeomCG"
LRS = "lrslibrary/algorithms/mc"
FOLDERS = "LMaFit", "RTRMC", LRGEOM, f"{LRGEOM}/Code", f"{LRS}/SVP", f"{LRS}/SVP/private", f"{LRS}/OptSpace"
# (file, what it says, what it says here): no Octave function changes the matrix that it is given.
CHANGES = (
    ("LMaFit/lmafit_mc_adp.m", r"updateSval\(S, (.+), L\)", r"S = sparse(Ik, Jk, \1, m, n)"),
    (
        f"{LRGEOM}/Code/grad.m",
        r"do_updateSval\(.*\);",
        "prob.temp_omega = sparse(prob.Omega_i, prob.Omega_j, x.err, prob.n1, prob.n2);",
    ),
)
LIMIT = 3000


def prepare(codes: Path, to: Path) -> None:
    """Copy the authors' files, with the changes above and without what our functions stand in for."""
    replaced = {path.name for path in OURS.glob("*.m")}
    for folder in FOLDERS:
        (to / folder).mkdir(parents=True, exist_ok=True)
        for path in (codes / folder).glob("*.m"):
            if path.name not in replaced:
                shutil.copy(path, to / folder)
    shutil.copytree(codes / "manopt" / "manopt", to / "manopt")
    for name, said, says in CHANGES:
        text, found = re.subn(said, says, (to / name).read_text("latin-1"))
        assert found, f"{name} does not say {said}"
        (to / name).write_text(text, "latin-1")


def original(method: str, instance: Path, prepared: Path) -> list[float]:
    """Iterations, Hessian products and the last f of the authors' code."""
    counts = instance.with_suffix(".txt")
    counts.unlink(missing_ok=True)
    paths = ", ".join(f"'{prepared / folder}'" for folder in FOLDERS)
    program = (
        f"warning('off', 'all'); addpath(genpath('{prepared / 'manopt'}')); addpath({paths}, '{OURS}'); "
        f"run_original('{method}', '{instance}', '{counts}');"
    )
    done = subprocess.run(["octave-cli", "-q", "--eval", program], capture_output=True, text=True)
    if not counts.exists():
        raise RuntimeError(f"{method}: {done.stderr}")
    return [float(number) for number in counts.read_text().split()]


def save(data: Any, start: Any, path: Path) -> None:
    U, s, V = start
    positions = {"rows": np.asarray(data.rows) + 1, "columns": np.asarray(data.cols) + 1}
    savemat(path, {**positions, "values": data.values, "shape": data.shape, "U": U, "s": s, "V": V})


def compare(name: str, seeds: list[int], only: list[str], prepared: Path, folder: Path) -> None:
    """Print a line per seed and method: the authors' counts, and ours."""
    instance = getattr(instances, name)
    for seed in seeds:
        data = instance.draw(seed)
        cost = rf.Completion.from_triples(data)
        start = plain_start(cost, instance.rank)
        save(data, start, folder / "instance.mat")
        U, s, V = start
        first_projection = U, 0.75 * cost.shape[0] * cost.shape[1] / cost.observed.size * s, V
        for method in only:
            theirs = original(method, folder / "instance.mat", prepared)
            iterations, products, value = count(
                cases(cost.shape, instance.rank)[method],
                cost,
                first_projection if method == "SVP" else start,
                LIMIT,
            )
            print(
                f"| {name} | {seed} | {method} | {theirs[0]:g} | {iterations:g} | {theirs[1]:g} | "
                f"{products:g} | {theirs[2]:.0e} | {value:.0e} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("codes", type=Path)
    parser.add_argument("--instances", nargs="*", default=["P1", "P3", "P7"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--only", nargs="*", choices=METHODS, default=list(SPARSE))
    options = parser.parse_args()
    print("| instance | seed | method | theirs | ours | their products | ours | their f | ours |")
    print("|---" * 9 + "|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(options.codes, Path(folder) / "codes")
        for name in options.instances:
            compare(name, options.seeds, options.only, Path(folder) / "codes", Path(folder))


if __name__ == "__main__":
    main()
