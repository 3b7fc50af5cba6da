"""Threads that need no GIL to begin: they wait in compiled code for the address of what is to be called.

Python is held by one thread at a time, and each hand-over takes as long as to wake a thread: with helpers
that begin in Python, an evaluation of P2 on 16 threads took 2.5 ms, and a solve 0.25 s; with these 1.8 ms and
0.15 s. Only the caller takes arguments out of Python's objects (`chunks.ASKED`). Helpers that look for work
for 0.1 ms before they sleep gain 0.2 ms of an evaluation: too little to keep 15 processors busy for.

What threads share is a desk: how many may still come in and how many are inside, both in one number, that is
changed in one step; and the jobs. One caller has the desk at a time, others wait for it. Locks are Python's,
whose C functions need no GIL.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

from rankfold.kernels.chunks import APART, add, change, look
from rankfold.kernels.compiling import compiled

# Places on the desk: who may come in and who is inside, where the jobs are, how many, and how many failed.
STATE, JOBS, COUNT, FAILED = (place * APART for place in range(4))
# In STATE: one that is inside counts 1, one that may come in TICKET, a caller that sleeps until all have left
# SLEEPS.
TICKET, SLEEPS = 1 << 20, 1 << 40
# Looks, of some nanoseconds each, after which a caller sleeps if others are still at work.
SPIN = 2000

_acquire = types.ExternalFunction("PyThread_acquire_lock", types.int32(types.uintp, types.int32))
_release = types.ExternalFunction("PyThread_release_lock", types.void(types.uintp))


@intrinsic
def _call(typing: Any, function: Any, kept: Any) -> Any:
    """Call a function of one address, which returns numba's code of how it went."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [byte]).as_pointer()
        return builder.call(builder.inttoptr(args[0], kind), [builder.inttoptr(args[1], byte)])

    return types.int32(types.int64, types.int64), codegen


@register_jitable
def _perform(desk: Any) -> None:
    """Do the jobs one after the other, with whoever else does them."""
    jobs = np.uint64(look(desk, JOBS))
    for k in range(look(desk, COUNT)):
        code = _call(look(jobs, 2 * k), look(jobs, 2 * k + 1))
        if code == -1 or code > 0:  # an error, of Python or of the kernel's own
            add(desk, FAILED, 1)


@register_jitable
def _came_in(desk: Any) -> bool:
    """Come in, if one more may."""
    state = look(desk, STATE)
    while TICKET <= state < SLEEPS:
        if change(desk, STATE, state, state - TICKET + 1):
            return True
        state = look(desk, STATE)
    return False


@compiled
def attend(desk, own, done):  # type: ignore[no-untyped-def]
    """Help for ever: with the lock `own` to be woken by, and `done` to wake a caller that sleeps."""
    while True:
        _acquire(own, 1)
        if _came_in(desk):
            _perform(desk)
            if add(desk, STATE, -1) == SLEEPS + 1:
                _release(done)


@compiled
def lead(desk, turn, done, locks, jobs):  # type: ignore[no-untyped-def]
    """Do jobs with as many helpers as there are locks; return how many of all these failed."""
    _acquire(turn, 1)
    add(desk, JOBS, np.int64(jobs.ctypes.data) - look(desk, JOBS))
    add(desk, COUNT, len(jobs) - look(desk, COUNT))
    add(desk, STATE, TICKET * locks.size)
    for k in range(locks.size):
        _release(locks[k])
    _perform(desk)
    state = look(desk, STATE)
    while not change(desk, STATE, state, state % TICKET):  # nobody else may come in now
        state = look(desk, STATE)
    looks = 0
    while looks < SPIN and look(desk, STATE):
        looks += 1
    if add(desk, STATE, SLEEPS):
        _acquire(done, 1)
    add(desk, STATE, -SLEEPS)
    failed = look(desk, FAILED)
    add(desk, FAILED, -failed)
    _release(turn)
    return failed


class Team:
    """Helpers of all callers, and their desk."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._desk = np.zeros(4 * APART, np.int64)
        self._turn, self._done = _new_lock(), _new_lock(taken=True)
        self._locks = np.empty(0, np.uintp)

    def lead(self, jobs: NDArray[np.int64], helpers: int) -> None:
        """Have jobs done by the caller and so many helpers: (address of a function, of its argument) each."""
        locks = self._with(helpers)
        if lead(np.uintp(self._desk.ctypes.data), self._turn, self._done, locks, jobs):
            raise RuntimeError("a kernel failed")

    def _with(self, helpers: int) -> NDArray[np.uintp]:
        """Return the locks of so many helpers, who are there from now on."""
        if self._locks.size < helpers:
            with self._lock:
                while self._locks.size < helpers:
                    own = _new_lock(taken=True)
                    arguments = np.uintp(self._desk.ctypes.data), own, self._done
                    name = f"rankfold_{self._locks.size}"
                    try:
                        threading.Thread(target=attend, args=arguments, name=name, daemon=True).start()
                    except RuntimeError:  # while the interpreter exits there are no new threads
                        break
                    self._locks = np.append(self._locks, own)
        return self._locks[:helpers]


def _new_lock(taken: bool = False) -> np.uintp:
    """Return the address of a new lock of Python's, which is never given back."""
    allocate = ctypes.pythonapi.PyThread_allocate_lock
    allocate.restype = ctypes.c_void_p
    address = allocate()
    if taken:
        ctypes.pythonapi.PyThread_acquire_lock(ctypes.c_void_p(address), 1)
    return np.uintp(address)
