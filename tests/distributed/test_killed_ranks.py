"""A process that is killed: the others end at once, and the run goes on from its checkpoint."""

from __future__ import annotations

import pytest

from distributed.soak import killed_and_resumed, uninterrupted

pytest.importorskip("torch")


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    whole = uninterrupted(tmp_path / "whole")
    report = killed_and_resumed(tmp_path / "killed", victim=1, moment=0.3, task="task:slow")
    assert report.found == whole
    assert report.waited < 60
    assert "cannot reach the others" in report.said
    assert not report.half_files
