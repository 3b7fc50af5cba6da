"""Ctrl-C is kept where it would lose something, and raised elsewhere."""

import os
import signal
import threading
from contextlib import suppress

import pytest

from rankfold.interrupts import FIRM, KEEP, Scope, interruptible, keep_until_done

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals")


@pytest.fixture(autouse=True)
def handlers():
    """Python's own, also where the tests run in the background of a script; they must be back afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    found = signal.signal(signal.SIGINT, before)
    assert found is signal.default_int_handler


def press():
    signal.raise_signal(signal.SIGINT)


def test_without_patience_it_is_raised():
    with pytest.raises(KeyboardInterrupt), Scope():
        press()


def test_it_is_kept_until_the_end_and_then_raised():
    done = []

    def work():
        with Scope(KEEP):
            press()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]


def test_it_is_not_raised_once_answered():
    with Scope(KEEP) as scope:
        assert not scope.answer()
        press()
        assert scope.answer()
        assert not scope.answer()
    assert scope.received == [signal.SIGINT]


def test_a_scope_within_forgets_none_that_waits():
    with Scope(KEEP) as outer:
        press()
        with Scope(KEEP) as inner:
            assert inner.received == [signal.SIGINT]
        assert outer.answer()
    assert outer.received == [signal.SIGINT]


def test_a_second_one_is_raised_at_once():
    with Scope(KEEP) as scope:
        press()
        scope.answer()
        with pytest.raises(KeyboardInterrupt):
            press()
        scope.answer()


def test_firm_operations_are_not_torn_apart_by_any():
    done = []

    def work():
        with Scope(KEEP):
            with Scope(FIRM):
                press()
                press()
                done.append(1)
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]


def test_what_is_interruptible_is_interrupted_also_by_one_that_waits():
    with Scope(KEEP) as scope:
        with pytest.raises(KeyboardInterrupt):
            interruptible(press)
        assert scope.answer()
        scope.received.clear()
        press()
        with pytest.raises(KeyboardInterrupt):
            interruptible(pytest.fail)
        assert scope.answer()
        assert interruptible(max, 1, 2) == 2


def test_an_exception_that_python_ignores_comes_again():
    def ignores():
        with suppress(KeyboardInterrupt):  # as the interpreter does in finalisers
            press()

    with Scope(KEEP) as scope:
        interruptible(ignores)
        with pytest.raises(KeyboardInterrupt):
            interruptible(pytest.fail)
        scope.answer()


def test_outside_of_a_scope_is_as_around_it():
    with Scope(FIRM) as scope, pytest.raises(KeyboardInterrupt), scope.outside():
        press()
    with Scope(KEEP) as outer, Scope(FIRM) as inner, inner.outside():
        press()
        assert outer.answer()


def test_a_scope_keeps_from_when_it_is_told_whatever_it_has_called():
    with Scope() as command:
        with Scope(unit=True):
            interruptible(command.keep)
        press()
        assert command.answer()


def test_a_unit_of_work_keeps_until_it_is_done():
    with Scope(unit=True) as fit:
        with Scope(FIRM) as blas, blas.outside():
            keep_until_done()
        press()
        assert fit.answer()
    keep_until_done()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_another_handler_is_left_alone():
    came = []
    signal.signal(signal.SIGINT, lambda *_: came.append(1))
    try:
        with Scope(KEEP) as scope:
            press()
            assert not scope.answer()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert came == [1]


def test_sigterm_is_left_alone_unless_it_raises_as_ctrl_c_does():
    before = signal.getsignal(signal.SIGTERM)
    with Scope(KEEP):
        assert signal.getsignal(signal.SIGTERM) is before
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Scope(KEEP) as scope:
            signal.raise_signal(signal.SIGTERM)
            assert scope.answer()
        assert scope.received == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_have_no_part_in_it():
    def work():
        with Scope(KEEP) as scope:
            assert interruptible(scope.answer) is False
            keep_until_done()

    with Scope() as main:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert main.patience == 0


def test_a_child_has_the_handlers_that_were_found():
    with Scope(KEEP):
        child = os.fork()
        if child == 0:
            os._exit(0 if signal.getsignal(signal.SIGINT) is signal.default_int_handler else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
