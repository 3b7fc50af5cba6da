"""What a process of a run does as one of several, or alone, whatever the others say."""

import json
from types import SimpleNamespace

import pytest
from run_toys import Script, make_problem

from rankfold.distributed import Group
from rankfold.run.driver import minimize
from rankfold.run.parts import write_parts
from rankfold.run.team import Team


class Others:
    """A group of two, whose other process says what it is told to."""

    size = 2

    def __init__(self, rank=0, alike=False, worst=0.0):
        self.rank, self.alike, self.worst, self.heard = rank, alike, worst, []

    def failed_alike(self, error):
        self.heard.append(error)
        return self.alike

    def require_equal(self, what, text):
        self.heard.append((what, text))

    def agree(self, seconds, asked, interrupted, must_be_equal):
        self.heard.append((seconds, asked, interrupted, must_be_equal))
        return 77.0, True, interrupted

    def most(self, number):
        self.heard.append(number)
        return max(number, self.worst)


def problem_of(*groups):
    places = tuple(SimpleNamespace(group=group) for group in groups)
    return SimpleNamespace(cost=SimpleNamespace(places=places or None))


def test_a_team_is_made_of_several_processes():
    others = Others()
    assert Team.of(problem_of(others, others)).group is others
    assert Team.of(problem_of(others, others)).several
    for problem in (problem_of(), problem_of(Group(), Group()), SimpleNamespace(cost=object())):
        assert Team.of(problem) == Team(None)
        assert not Team.of(problem).several


def test_an_error_ends_a_run_of_several_unless_it_is_everybody_s():
    error = ZeroDivisionError("mine")
    Team(None).failed(error)
    Team(Others(alike=True)).failed(error)
    with pytest.raises(ZeroDivisionError, match="mine"):
        Team(Others()).failed(error)


def test_an_error_of_a_callback_is_told_to_the_others_and_raised():
    def callback(progress):
        raise ZeroDivisionError("mine")

    others = Others(alike=True)
    with pytest.raises(ZeroDivisionError, match="mine"):
        Team(others).called(callback, None)
    assert [type(error) for error in others.heard] == [ZeroDivisionError]
    assert Team(Others()).called(lambda progress: progress, "seen") == "seen"


def test_several_compare_their_arguments_and_one_alone_has_nothing_to_compare():
    others = Others()
    Team(others).require_equal("a")
    Team(None).require_equal("a")
    assert others.heard == [("arguments", "a")]


def test_the_clock_is_that_of_the_first_and_all_else_must_be_equal():
    progress, others = [], Others()
    minimize(make_problem(), Script((3.0, 2.0, 1.0)), max_iterations=2, callback=progress.append)
    agreed, asked, interrupted = Team(others).agreed(progress[2], False, False)
    assert (asked, interrupted) == (True, False)
    assert agreed.trace["seconds"].tolist() == [*progress[2].trace["seconds"][:2], 77.0]
    assert agreed.trace["value"].tolist() == [3.0, 2.0, 1.0]
    assert agreed.state is progress[2].state
    ((seconds, _, _, text),) = others.heard
    assert seconds == progress[2].seconds
    assert text == f"iteration {progress[2].trace[-1]._replace(seconds=0.0)!r}, stalled: "


def written(file):
    file.write(b"x")


@pytest.mark.parametrize("rank", [0, 1])
def test_each_process_writes_its_part_and_the_first_alone_says_so(tmp_path, rank):
    folder = tmp_path / "ckpt"
    (folder / "iteration-00000001").mkdir(parents=True)
    for _ in range(2):  # another process may have made the folder already
        write_parts(folder, 5, Others(rank), written)
    assert (folder / "iteration-00000005" / f"part-0000{rank}-of-00002").read_bytes() == b"x"
    assert (folder / "iteration-00000001").exists() == bool(rank)
    assert (folder / "manifest.json").exists() == (not rank)
    if not rank:
        named = json.loads((folder / "manifest.json").read_text())
        assert (named["files"], named["processes"]) == ("iteration-00000005", 2)


def test_no_manifest_names_a_part_that_another_process_could_not_write(tmp_path):
    others = Others(worst=1.0)
    with pytest.raises(OSError, match="another process could not write its part"):
        write_parts(tmp_path / "new" / "ckpt", 5, others, written)
    assert others.heard == [0.0]
    assert [path.name for path in (tmp_path / "new" / "ckpt").iterdir()] == ["iteration-00000005"]


def test_a_process_that_cannot_write_its_part_tells_the_others(tmp_path):
    def full(file):
        raise OSError("full")

    others = Others()
    with pytest.raises(OSError, match="full"):
        write_parts(tmp_path, 5, others, full)
    assert others.heard == [1.0]


def test_a_run_of_several_asks_each_once_and_stops_where_anybody_was_asked_to(monkeypatch):
    problem, others, seen = make_problem(), Others(), []
    monkeypatch.setattr(type(problem.cost), "places", (SimpleNamespace(group=others),) * 2)
    result = minimize(problem, Script((3.0, 2.0)), max_iterations=5, callback=seen.append)
    assert result.stop_reason == "stopped by the callback at iteration 0"
    assert (len(seen), result.seconds) == (1, 77.0)
    (what, text), (_, asked, interrupted, _) = others.heard
    assert (what, asked, interrupted) == ("arguments", False, False)
    assert text == f"Script() {problem.geometry!r} 5 1e-10 None"
    others.heard.clear()
    minimize(problem, Script((3.0, 2.0)), max_iterations=5, callback=lambda progress: True)
    assert others.heard[1][1:3] == (True, False)
    others.heard.clear()
    minimize(problem, Script((3.0, 2.0)), max_iterations=5)
    assert others.heard[1][1:3] == (False, False)


def test_ctrl_c_ends_a_step_of_one_alone_and_waits_for_that_of_several(monkeypatch):
    monkeypatch.setattr("rankfold.run.team.interruptible", lambda call, *args: ("may end", call(*args)))
    assert Team(None).interruptible(max, 1, 2) == ("may end", 2)
    assert Team(Others()).interruptible(max, 1, 2) == 2
