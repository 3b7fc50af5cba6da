"""Everything that writes a file, each as a function of the path, always of the same bytes."""

import numpy as np
import pyarrow as pa

import rankfold as rf
from rankfold.cli import table_files
from rankfold.report import DataSummary, Report, figure, write_report
from rankfold.run import checkpoint


def writers():
    """By the name of the file."""
    data = rf.data.random_completion((12, 9), 1, 3, seed=0)
    model = rf.MatrixCompletion(1, regularization=0.1, random_state=0).fit(data)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 1)
    method, kept = rf.ConjugateGradient(), []
    result = rf.minimize(problem, method, max_iterations=2, callback=kept.append)
    rows = np.arange(4)
    report = Report(
        data=DataSummary.of(rows, rows, rows + 1.0, (4, 4), "x.csv"), rank=1, trace=result.trace, seconds=1.0,
        singular_values=np.ones(1), residuals=np.ones(4), errors={}, held_out=0, settings={}, command="",
    )  # fmt: skip
    table = pa.table({"a": np.arange(200.0), "b": ["x"] * 200})
    return {
        "model.rankfold": lambda path: rf.save(model, path),
        "run.ckpt": lambda path: checkpoint.save(path, kept[-1], method, problem, problem.cost.fingerprint()),
        "report.html": lambda path: write_report(report, path),
        "plot.png": lambda path: figure.draw(report, path),
        "trace.csv": result.trace.to_csv,
        "trace.json": result.trace.to_json,
        "table.csv": lambda path: table_files.write_table(str(path), table, False),
        "table.parquet": lambda path: table_files.write_table(str(path), table, False),
        "factors.npz": lambda path: table_files.write_factors(model, str(path), "npz", False),
        "factors.parquet": lambda path: table_files.write_factors(model, str(path), "parquet", False),
        **{
            f"triples.{kind}": lambda path: rf.data.write_triples(path, data)
            for kind in ("csv", "tsv", "parquet", "mtx", "npz", "csv.gz")
        },
    }
