"""Properties that are computed once, without a lock."""

import threading
from concurrent.futures import ThreadPoolExecutor

from rankfold.remembered import remembered

WAIT = 60  # seconds after which a barrier gives up: reached only where threads wait for each other


class Slow:
    """Answers only once as many threads have asked as its barrier wants."""

    def __init__(self, barrier):
        self.barrier = barrier

    @remembered
    def answer(self):
        """What it says."""
        self.barrier.wait(WAIT)
        return object()


def test_computed_once_and_kept_with_the_object():
    slow = Slow(threading.Barrier(1))
    assert slow.answer is slow.answer
    assert slow.answer is not Slow(slow.barrier).answer
    assert vars(slow)["answer"] is slow.answer


def test_the_class_shows_the_documentation():
    assert Slow.answer.__doc__ == "What it says."


def test_objects_of_one_class_are_computed_at_the_same_time():
    barrier = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda slow: slow.answer, [Slow(barrier) for _ in range(4)]))) == 4


def test_threads_that_ask_at_once_get_the_same_answer():
    slow = Slow(threading.Barrier(4))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: slow.answer, range(4)))
    assert len(set(answers)) == 1
