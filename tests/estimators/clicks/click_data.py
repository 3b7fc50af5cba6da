"""Clicks of users who like one of three kinds of items."""

import numpy as np


def clicks(users=60, items=45, each=8, seed=0):
    """Return pairs (user, item), each once, and what kind users and items are of."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(users) % 3, np.arange(items) % 3
    pairs = []
    for user in range(users):
        liked = np.flatnonzero(kinds[1] == kinds[0][user])
        chosen = rng.choice(liked, each, replace=False)
        pairs += [(user, item) for item in [*chosen, rng.integers(items)]]
    return np.unique(np.array(pairs), axis=0), kinds
