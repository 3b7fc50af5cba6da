"""The rules of the verdicts, at their edges."""

import pytest

from rankfold.experiments.verdicts import JUDGES, RULES, Claim, Measured, judged, number, recorded

INF = float("inf")


@pytest.mark.parametrize(
    ("rule", "numbers", "holds"),
    [
        # medians 100 and 120, whatever single instances say
        ("similar", {"a": [10, 100, 101], "b": [119, 120, 999]}, True),
        ("similar", {"a": [100, 100, 100], "b": [121, 121, 121]}, False),
        ("similar", {"a": [121, 121, 121], "b": [100, 100, 100]}, False),
        ("similar", {"a": [INF], "b": [INF]}, False),
        ("similar on some", {"a": [100, 100], "b": [120, 300]}, True),
        ("similar on some", {"a": [100, 100], "b": [121, 300]}, False),
        ("similar on some", {"a": [INF, 100], "b": [INF, 300]}, False),
        ("indistinguishable", {"a": [100, 50, 10], "b": [110, 55, 11]}, True),
        ("indistinguishable", {"a": [100, 100, 100], "b": [100, 100, 111]}, False),
        ("faster", {"a": [10, 10, 10], "b": [11, 11, 11], "c": [12, 12, 12]}, True),
        ("faster", {"a": [10, 10, 10], "b": [10.9, 10.9, 10.9]}, False),
        ("faster", {"a": [10, 10, 10], "b": [20, 20, 10]}, False),
        ("faster", {"a": [10, 10, 10], "b": [20, 20, 20], "c": [9, 20, 20]}, False),
        ("faster", {"a": [10, 10], "b": [INF, INF]}, True),
        ("faster", {"a": [INF, INF], "b": [INF, INF]}, False),
        ("competitive", {"a": [120], "b": [100]}, True),
        ("competitive", {"a": [1], "b": [100]}, True),
        ("competitive", {"a": [121], "b": [100], "c": [200]}, False),
        ("competitive", {"a": [INF], "b": [INF]}, False),
        ("very different", {"a": [1, 3], "b": [3, 1]}, True),
        ("very different", {"a": [1, 1], "b": [3, 2.9]}, False),
        ("very different", {"a": [1], "b": [INF]}, True),
        ("very different", {"a": [INF], "b": [INF]}, False),
        ("reaches the limit", {"a": [INF, INF], "b": [1, 1]}, True),
        ("reaches the limit", {"a": [INF, 199], "b": [INF, INF]}, False),
        ("about 1", {"a": [0.5, 0.5], "b": [1.5, 1.5]}, True),
        ("about 1", {"a": [1.0], "b": [1.6]}, False),
        ("about 1", {"a": [0.4], "b": [1.0]}, False),
    ],
)
def test_rules(rule, numbers, holds):
    assert JUDGES[rule](numbers) is holds


def test_every_rule_says_its_own_tolerance():
    assert set(JUDGES) < set(RULES)
    for word, tolerance in {"similar": "1.2", "indistinguishable": "1.1", "faster": "1.1",
                            "very different": "3", "unaffected": "1e-12", "about 1": "0.5 and 1.5",
                            "flattens out": "0.001", "competitive": "1.2",
                            "similar on some": "1.2"}.items():  # fmt: skip
        assert tolerance in RULES[word]


def test_a_claim_joins_what_is_judged_and_what_stands_beside():
    near, far = Measured("n", {"a": [1.0], "b": [1.0]}), Measured("m", {"a": [1.0], "b": [9.0]})
    claim = judged("similar", "They are alike.", near, beside=(far,), why="because")
    assert claim == Claim("They are alike.", "n: a 1, b 1; m: a 1, b 9", "similar", True, "because")
    assert judged("similar", "", near, far).holds is False
    assert recorded("(Nothing.)", near) == Claim("(Nothing.)", "n: a 1, b 1", "–", None)
    with pytest.raises(ValueError, match="rule must be one of similar"):
        Claim("", "", "alike", True)


def test_numbers_in_words():
    assert str(Measured("s", {"a": [1.0, 2.0, 4.0, INF]})) == "s: a 3 (1 to not reached)"
    assert [number(n) for n in (0.012345, 1.5, 2560000.0)] == ["0.0123", "1.5", "2560000"]
