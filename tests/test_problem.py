"""A problem is its cost and its geometry; what was counted is no part of it."""

import rankfold as rf
from dense import DenseCost

COST, GEOMETRY = DenseCost((6, 5)), rf.FullRank((6, 5), 2)


def problem():
    return rf.Problem(COST, GEOMETRY)


def test_counts_are_no_part_of_what_a_problem_is():
    one, other = problem(), problem()
    assert one.at(one.start()).value > 0
    assert one.counts != other.counts
    assert one == other
    assert one != one.with_rank(1)
    assert "counts" not in repr(one)


def test_each_question_is_counted_once_and_in_every_rank_alike():
    one = problem()
    here = one.with_rank(1).at(one.with_rank(1).start())
    for _ in range(2):  # the second time it is known
        assert here.value > 0
        assert here.gradient_norm > 0
    here.hessian(here.gradient)
    one.value(one.start())
    assert vars(one.counts) == {"values": 1, "gradients": 1, "hessians": 1, "polynomials": 0, "blocks": 0}


def test_polynomials_are_counted_and_those_of_a_sample_where_there_is_one():
    data = rf.data.random_completion((20, 15), 2, 4.0, seed=0)
    one = rf.Problem.of(rf.Completion(data.rows, data.cols, data.values, data.shape), 2)
    here = one.at(one.start())
    here.polynomial(here.gradient)
    assert one.counts.polynomials == 1
    assert here.sampled_polynomial(here.gradient) is None  # too few entries for a sample
    assert one.counts.polynomials == 1


def test_the_rank_it_has_gives_the_same_problem():
    one = problem()
    assert one.with_rank(2) is one
    assert one.with_rank(1).geometry.rank == 1
