"""`rankfold clicks`: from a file of clicks to a model that recommends."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from rankfold.cli import options
from rankfold.cli.console import check_writable, note, print_json, print_table, say, working
from rankfold.interrupts import Scope

PLACES = 20  # of a list that count


def clicks(
    pairs: Annotated[
        str, typer.Argument(help="CSV, TSV, Parquet, Matrix Market or npz, also .gz; - for standard input.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the model goes.")] = None,
    rank: Annotated[str, typer.Option(help="Rank of the matrix: a number, or auto.")] = "auto",
    row: options.RowColumn = None,
    col: options.ColColumn = None,
    count: Annotated[
        str | None, typer.Option(help="Column with the number of clicks; by default each line is one.")
    ] = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    header: options.Header = None,
    holdout: Annotated[
        float, typer.Option(help="A part of the clicks to measure the lists on.", min=0.0, max=0.9)
    ] = 0.0,
    alpha: Annotated[float, typer.Option(help="What a click weighs, beside a pair without one.")] = 4.0,
    regularization: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    max_iter: Annotated[int, typer.Option(help="At most so many iterations.", min=1)] = 200,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Learn from clicks, purchases or plays what to recommend: user, item and, if there is one, a count.

    Nothing need be known of what users dislike. Lines of the same user and item add up. The first line names
    the columns, unless the item (or the count) in it is a number; --no-header says that it does not.

    Example: rankfold clicks clicks.csv --row user --col film --holdout 0.1 -o model.rankfold

      rankfold recommend model.rankfold --for ann -n 5

    Ctrl-C, or SIGTERM, ends the fit and keeps the best model so far; a second one ends at once.
    """
    with working("starting"):
        import rankfold as rf
        from rankfold.cli.taken_columns import tell_taken
        from rankfold.data.io.streams import name_of
        from rankfold.run.stopping import StopKind

    check_writable(output)
    chosen = (row, col) if count is None else (row, col, count)
    columns = [options.column_of(name) for name in chosen]
    model = rf.ImplicitFeedback(
        options.number_or_auto(rank, int, "--rank"), alpha=alpha, max_iter=max_iter, random_state=seed,
        regularization=options.number_or_auto(regularization, float, "--regularization"), verbose=1,
    )  # fmt: skip
    with working(f"reading {name_of(pairs)}"):
        data = rf.data.read_triples(pairs, columns, delimiter=delimiter, header=header, decimal=decimal)
    tell_taken(data.names, name_of(pairs))
    if count is None:
        note("rankfold: each line is one click; numbers of clicks are read by --count, ratings by `complete`")
    train, apart = rf.data.split(data, holdout, seed) if holdout else (data, None)
    with Scope() as scope:  # from the first iteration of the last fit on, a signal waits for the file
        began = perf_counter()
        model.fit(train, callback=lambda progress: scope.keep())
        seconds = perf_counter() - began
        if output is not None:
            rf.save(model, output)
        found = {} if apart is None else measured(model, train, apart)
        (_tell_json if json else _tell)(model, found, seconds, output)
        signalled = scope.answer() or scope.received
    ended_early = StopKind(model.stop_kind_) is StopKind.INTERRUPTED
    if signalled or ended_early:
        kept = f"; the best model so far is in {output}" if output else "; give -o to keep the model"
        raise KeyboardInterrupt(f"{model.stop_reason_ if ended_early else 'interrupted after the fit'}{kept}")


def measured(model: Any, train: Any, apart: Any) -> dict[str, dict[str, float]]:
    """Return the metrics of the lists of the model, and of the most popular items, on clicks kept apart."""
    import numpy as np

    from rankfold.data.triples import Triples
    from rankfold.estimators.completion.neighbours import Recommendations, forget, largest
    from rankfold.metrics import ndcg_at_k, recall_at_k

    pairs = np.unique(np.stack([apart.rows, apart.cols])[:, apart.values > 0], axis=1)
    if not pairs.size:
        return {}
    held_out = Triples(pairs[0], pairs[1], np.ones(pairs.shape[1]), train.shape)
    users = np.unique(pairs[0])

    def lists(scores_of: Any) -> Recommendations:
        def unseen(part: Any) -> Any:
            scores = scores_of(part)
            forget(scores, part, model.observed_)
            return scores

        query, cols, scores = largest(users, train.shape[1], PLACES, unseen)
        return Recommendations(users[query], cols, scores)

    L, R = model.factors_
    popular = np.bincount(train.cols, train.values, train.shape[1])
    made = {
        "the most popular": lists(lambda part: np.tile(popular, (len(part), 1))),
        f"rankfold, rank {model.rank_}": lists(lambda part: L[part] @ R.T),
    }
    metrics = {f"recall@{PLACES}": recall_at_k, f"NDCG@{PLACES}": ndcg_at_k}
    return {
        name: {title: metric(held_out, each, PLACES) for title, metric in metrics.items()}
        for name, each in made.items()
    }


def _tell_json(model: Any, found: dict[str, Any], seconds: float, output: Path | None) -> None:
    print_json({
        "shape": model.shape_, "pairs": len(model.observed_.indices), "rank": model.rank_,
        "regularization": model.regularization_, "iterations": model.trace_[-1].iteration,
        "converged": model.converged_, "stop_reason": model.stop_reason_, "cost": model.trace_[-1].value,
        "metrics": found, "seconds": seconds, "files": {} if output is None else {"model": output},
    })  # fmt: skip


def _tell(model: Any, found: dict[str, Any], seconds: float, output: Path | None) -> None:
    users, items = model.shape_
    say(
        f"{len(model.observed_.indices):,} pairs of {users:,} users and {items:,} items, fitted at rank "
        f"{model.rank_} in {seconds:.1f} s ({model.trace_[-1].iteration} iterations; {model.stop_reason_})."
    )
    if found:
        titles = next(iter(found.values()))
        rows = [(name, *(f"{number:.4f}" for number in each.values())) for name, each in found.items()]
        print_table(("lists of held-out clicks by", *titles), rows)
    if output is not None:
        say(f"The model is in {output}.")
    else:
        note("The model was not kept: add -o model.rankfold to use it with `rankfold recommend`.")
    if not found:
        note("To see how good it is, add --holdout 0.1.")
