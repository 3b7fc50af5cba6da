"""Labels and file names that are meant to do harm: to the terminal, to the table, to a spreadsheet."""

import csv
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cli_runs import run

import rankfold as rf
from rankfold.cli.labels import StandardOutput, visible, without_formulas
from rankfold.cli.table_files import write_batches

EVIL = ["[/]", "[/b]m", "[link=file:///]x", "\x1b[2Jx", "\x9b31mx", "a\nb", "=1+1", "\u202egnp", ":smile:"]
HARMFUL = "\x1b\x9b\u202e\x07\r"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "[" / "b]m"
    path.parent.mkdir()
    pairs = [(row, col) for row in EVIL for col in EVIL]
    values = np.arange(len(pairs)) % 7 + 1.0
    rf.save(rf.MatrixCompletion(1, regularization=1.0, random_state=0).fit(pairs, values), path)
    return path


@pytest.mark.parametrize("label", EVIL, ids=ascii)
def test_any_label_can_be_recommended_for_and_is_shown_as_it_is(model, label):
    told = run("recommend", model, "--for", label, "-n", "20", "--include-seen").stdout
    assert f"for {visible(label, keep='')}" in told
    for shown in ("[/]", "[link=file:///]x", "\\x1b[2Jx", "a\\nb", ":smile:"):
        assert shown in told
    assert not set(HARMFUL) & set(told)


def test_a_file_name_is_no_markup(model, tmp_path, monkeypatch):
    monkeypatch.chdir(model.parents[1])  # a table folds names that are longer than its lines
    assert "[/b]m" in run("info", "[/b]m").stdout
    monkeypatch.chdir(tmp_path)
    Path("\x1b[2J[x]").write_bytes(model.read_bytes())
    told = run("info", "\x1b[2J[x]").stdout
    assert "\\x1b[2J[x]" in told
    assert "\x1b" not in told


def test_messages_show_control_characters(tmp_path):
    told = run("info", tmp_path / "\x1b[2Jnone", code=1).stderr
    assert "\\x1b[2Jnone" in told
    assert "\x1b" not in told


def test_json_escapes_what_a_terminal_would_obey(model):
    told = run("recommend", model, "--for", EVIL[0], "-n", "20", "--include-seen", "--json").stdout
    assert not set(HARMFUL) & set(told)
    assert {line["column"] for line in json.loads(told)[EVIL[0]]} == set(EVIL)


def predictions(model, *options):
    lines = io.StringIO()
    csv.writer(lines).writerows([(label, EVIL[0]) for label in EVIL if "\n" not in label])
    return run("predict", model, "-", "--no-header", *options, stdin=lines.getvalue()).stdout


def test_csv_holds_labels_as_they_are_unless_formulas_are_to_be_escaped(model):
    plain, escaped = predictions(model), predictions(model, "--escape-formulas")
    assert '"=1+1"' in plain
    assert '"\'=1+1"' in escaped
    assert escaped.replace("'=", "=") == plain


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "＝1"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_that_begins_a_formula_gets_an_apostrophe(text, kind):
    batch = pa.record_batch([pa.array([text, "a=b", None, ""], kind), pa.array([-1, 2, 3, 4])], [text, "n"])
    names, batches = without_formulas(batch.schema.names, [batch])
    assert names == ["'" + text, "n"]
    (quoted,) = batches
    assert quoted.column(0).to_pylist() == ["'" + text, "a=b", None, ""]
    assert quoted.column(1).to_pylist() == [-1, 2, 3, 4]


@pytest.mark.parametrize("words", [("export", "--format", "csv"), ("impute",), ("regress",)])
def test_every_command_that_writes_csv_escapes_formulas(model, tmp_path, words):
    table, out = tmp_path / "t.csv", tmp_path / "o.csv"
    table.write_text("name,=x,y\n" + "".join(f"=n{k},{k},{2 * k}\n" for k in range(20)) + "@z,,1\n")
    inputs = {
        "export": (model, "-o", out),
        "impute": (table, "--rank", "1", "-o", out),
        "regress": (table, "--feature", "y", "--target", "=x", "--coefficients", out),
    }[words[0]]
    if words[0] == "regress":
        table.write_text("=x,y\n" + "".join(f"{k},{2 * k + k % 3}\n" for k in range(20)))
    run(*words, *inputs, "--escape-formulas")
    cells = [cell for row in csv.reader(io.StringIO(out.read_text())) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "@")]
    assert [cell for cell in cells if cell.startswith("'=")]


def test_a_terminal_gets_nothing_that_it_obeys_also_in_pieces():
    shown = io.BytesIO()
    stream = StandardOutput(shown, terminal=True)
    content = "é\x1b[2J\u202e字\n".encode()
    assert sum(stream.write(content[k : k + 1]) for k in range(len(content))) == len(content)
    assert shown.getvalue().decode() == "é\\x1b[2J\\u202e字\n"


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def test_csv_on_a_terminal_and_in_a_pipe(monkeypatch):
    batch = pa.record_batch([["\x1b[2J"]], ["row"])
    for kind, expected in ((Terminal, b'row\n"\\x1b[2J"\n'), (io.TextIOWrapper, b'row\n"\x1b[2J"\n')):
        shown = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", kind(shown))
        write_batches("-", iter([batch]), json=False, escape_formulas=False)
        assert shown.getvalue() == expected
        sys.stdout.detach()


def test_what_is_no_text_is_not_for_terminals(monkeypatch, model):
    from rankfold.cli.table_files import write_factors

    monkeypatch.setattr(sys, "stdout", Terminal(io.BytesIO()))
    with pytest.raises(ValueError, match="not for terminals"):
        write_factors(rf.load(model), "-", "npz", escape_formulas=False)


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_a_file_name_that_is_no_text(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff\x1b.csv")
    path.write_text("\n".join(f"{i},{j},{i * j % 5}" for i in range(9) for j in range(9)))
    report = tmp_path / "r.html"
    told = run("complete", path, "--rank", "1", "--regularization", "1", "--report", report,
               "--plot", tmp_path / "p.png")  # fmt: skip
    assert told.exit_code == 0
    assert "\\udcff\\x1b.csv" in report.read_text("utf-8")
