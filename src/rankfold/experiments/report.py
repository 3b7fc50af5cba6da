"""The page of all figures: what the paper leaves open, what its words mean here, and every verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rankfold.atomic import replace_text
from rankfold.experiments.curves import Figure
from rankfold.experiments.running import Setting
from rankfold.experiments.verdicts import RULES, Claim

_VERDICT = {True: "reproduced", False: "**not reproduced**", None: "–"}

_INTRODUCTION = """# The paper's figures, reproduced

Three things are ours, since the paper leaves them open, or says otherwise:

- **The start is scaled.** The paper starts at the rank-5 dominant SVD of the zero-filled data. Ours is that
  SVD times d₁d₂/|Ω| (400 times at 32000², oversampling 8), so that it is as large as W*. `--start plain`
  leaves the factor out.
- **Armijo's constant is 0.25** in the gradient descents; the paper gives none, textbooks take 1e-4
  (`--armijo 1e-4`). SVP and OptSpace have constants of their own, which stay.
- **The first trial step is s₀**, the minimiser of the linearised search. With j₀ = 0 the paper's update of
  step-sizes could also be read so that 2s₀ is tried first.

Figures and verdicts are given both ways. The paper's matrices are 4000 × 4000 and 32000 × 32000 (`--scale
paper`); those of a run stand in the title of its plot. Every run ends at f ≤ 1e-20, or after 200 iterations
(trust regions: 100, of at most 100 Hessian products each). Methods are the paper's: gradients and Hessians
in the metric of the geometry, never in that of the data. Seconds are CPU seconds of one thread, without the
start that all have in common; the methods of an instance run in turns in one process, and the fastest of a
method's runs counts. Numbers are medians over the instances, with the range in brackets. In a plot a thin
line is an instance, a thick one that of median length.
"""


def write_report(figures: tuple[Figure, ...], out: Path) -> Path:
    """Write the report of all figures found in `out` beside it, as `<out>.md`, and return its path."""
    path = out.with_name(out.name + ".md")
    found = {figure.name: _records(figure.name, out) for figure in figures}
    sections = [_section(name, records, out.name) for name, records in found.items() if records]
    parts = [_INTRODUCTION, _rules(), *([_glance(found)] if sections else []), *sections]
    replace_text(path, "\n".join(parts))
    return path


def _records(name: str, out: Path) -> dict[str, dict[str, Any]]:
    """What was found of a figure, by the file's name without its ending, the setting of ours first."""
    files = sorted([*out.glob(f"{name}.json"), *out.glob(f"{name}.*.json")], key=lambda file: len(file.name))
    return {file.name.removesuffix(".json"): json.loads(file.read_text("utf-8")) for file in files}


def _setting(record: dict[str, Any]) -> Setting:
    return Setting(**record["setting"])


def _rules() -> str:
    lines = [f"| {word} | {rule} |" for word, rule in RULES.items()]
    return "\n".join(
        [
            "## What the words mean",
            "",
            "A claim holds by one of these rules and by no other; they stand in `experiments/verdicts.py`.",
            "Numbers are those of which less is better: iterations, Hessian products, seconds; a run that",
            "does not get there counts as infinitely many.",
            "",
            "| word | rule |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def _glance(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Every claim with its verdict from each setting."""
    settings = list(dict.fromkeys(str(_setting(r)) for records in found.values() for r in records.values()))
    lines = [
        f"| figure | the paper says | rule | {' | '.join(settings)} |",
        "|---" * (3 + len(settings)) + "|",
    ]
    for name, records in found.items():
        verdicts: dict[tuple[str, str], dict[str, str]] = {}
        for record in records.values():
            for claim in record["claims"]:
                by_setting = verdicts.setdefault((claim["says"], claim["rule"]), {})
                by_setting[str(_setting(record))] = _VERDICT[claim["holds"]]
        for (says, rule), by_setting in verdicts.items():
            cells = (by_setting.get(setting, "not run") for setting in settings)
            lines.append(f"| {name} | {says} | {rule} | {' | '.join(cells)} |")
    return "\n".join(["## All claims", "", *lines, ""])


def _section(name: str, records: dict[str, dict[str, Any]], folder: str) -> str:
    lines = [f"## {next(iter(records.values()))['title']}", ""]
    for stem, record in records.items():
        setting = _setting(record)
        command = (
            f"rankfold reproduce {name} --scale {record['scale']} --seed {record['seed']} "
            f"--seeds {record['seeds']} {setting.options}"
        )
        lines += [
            f"### {record['title']}: {setting}",
            "",
            f"![{record['title']}, {setting}]({folder}/{stem}.png)",
            "",
            f"`{command}`: {record['instances']}; {record['seconds']:g} CPU seconds in {record['jobs']} "
            f"process{'es' if record['jobs'] > 1 else ''} on {record['machine']}. "
            f"Traces: [{stem}.csv]({folder}/{stem}.csv).",
            "",
            "| the paper says | rule | measured | |",
            "|---|---|---|---|",
            *(_line(Claim(**claim)) for claim in record["claims"]),
            "",
            # Written into the record by hand, where a run needs a word more than its numbers.
            *([record["note"], ""] if "note" in record else []),
        ]
    return "\n".join(lines)


def _line(claim: Claim) -> str:
    why = f" ({claim.why})" if claim.why and not claim.holds else ""
    return f"| {claim.says} | {claim.rule} | {claim.measured} | {_VERDICT[claim.holds]}{why} |"
