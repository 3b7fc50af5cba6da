"""What a program on a GPU holds at a time: shapes that were measured, and change on purpose only."""

import pytest

pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

SHAPES = [  # of passes: rank, bytes of a number, mean length of a line; columns, pieces, entries, warps
    (1, 4, 0.3, (2, 16, 1, 1)),
    (5, 4, 1.9, (8, 16, 1, 1)),
    (5, 4, 3.0, (8, 4, 4, 1)),
    (5, 8, 5.9, (8, 2, 8, 1)),
    (16, 4, 1e3, (16, 4, 4, 1)),
    (16, 8, 1e3, (16, 1, 16, 1)),
    (17, 4, 1e3, (32, 1, 8, 1)),
    (32, 8, 1e3, (32, 1, 8, 1)),
    (33, 4, 1e3, (64, 1, 8, 1)),
    (33, 8, 1e3, (64, 2, 4, 2)),
    (64, 8, 1.0, (64, 8, 1, 2)),
    (200, 4, 1e3, (256, 1, 8, 4)),
    (200, 8, 1e3, (256, 2, 4, 4)),
    (1000, 4, 3.0, (1024, 2, 4, 16)),
]


@pytest.mark.parametrize(("rank", "bytes_each", "mean", "shape"), SHAPES)
def test_passes_hold_pieces_and_entries_by_rank_precision_and_length(rank, bytes_each, mean, shape):
    from rankfold.kernels import gpu

    names = "R", "RP", "P", "E", "num_warps"
    assert gpu.layout(rank, bytes_each, mean) == dict(zip(names, (rank, *shape), strict=True))


@pytest.mark.parametrize(
    ("rank", "columns", "lines", "warps"),
    [(1, 2, 256, 1), (5, 8, 16, 1), (16, 16, 4, 1), (33, 64, 1, 4), (64, 64, 1, 4), (130, 256, 1, 16)],
)
def test_blocks_of_lines_are_held_as_many_as_fill_a_program(rank, columns, lines, warps):
    from rankfold.kernels import gpu_lines

    assert gpu_lines.layout(rank) == {"R": rank, "RP": columns, "P": lines, "num_warps": warps}
    forming = {"R": rank, "RP": columns, "P": 1, "E": lines, "num_warps": warps}
    assert gpu_lines.forming(rank) == forming


@pytest.mark.parametrize(
    ("rank", "columns", "rows", "summed"),
    [(1, 2, 256, 512), (5, 8, 16, 128), (16, 16, 4, 64), (40, 64, 1, 16)],
)
def test_tall_arrays_are_taken_by_so_many_rows(rank, columns, rows, summed):
    from rankfold.kernels import gpu_tall

    for bytes_each, floats in ((4, tl.float32), (8, tl.float64)):
        shape = {"R": rank, "RP": columns, "FLOATS": floats}
        assert gpu_tall.layout(rank, bytes_each) == {**shape, "ROWS": rows, "num_warps": 1}
        assert gpu_tall.summing(rank, bytes_each) == {**shape, "ROWS": summed, "num_warps": 2}


def test_long_sums_take_large_steps_each_by_its_own_length():
    from rankfold.kernels import gpu_tall

    for lengths, steps in (
        ((1, 32768), (1024, 1024)),
        ((32769, 5), (8192, 1024)),
        ((3, 10**6), (1024, 8192)),
    ):
        shape = dict(zip(("BLOCK", "BESIDE"), steps, strict=True))
        assert gpu_tall.totalling(*lengths) == {**shape, "num_warps": 8}


@pytest.mark.parametrize(
    ("rows", "step", "chunk"),
    [(1, 4, 64), (1, 256, 4096), (32768, 4, 64), (32769, 4, 68), (10**6, 16, 1968), (10**8, 16, 195328)],
)
def test_a_gram_has_512_chunks_at_most_each_of_16_steps_or_more(rows, step, chunk):
    from rankfold.kernels import gpu_tall

    assert gpu_tall.chunk_of(rows, step) == chunk


@pytest.mark.parametrize(
    ("rank", "columns", "warps", "rows"), [(1, 2, 1, 512), (5, 8, 2, 128), (9, 16, 8, 64), (16, 16, 8, 64)]
)
def test_an_iteration_holds_its_small_matrices_in_one_program(rank, columns, warps, rows):
    from rankfold.kernels import gpu_tall, gpu_turn

    shape = {"R": rank, "RP": columns, "num_warps": warps}
    assert gpu_turn.layout(rank) == shape
    assert gpu_turn.beside_rows(rank) == {**shape, "ROWS": rows}
    step = gpu_tall.layout(rank, 8)["ROWS"]
    for longest in (100, 10**6 + 1):
        chunk = gpu_tall.chunk_of(longest, step)
        programs = (20, -(-longest // chunk))  # ten products of each side
        assert gpu_turn.multiplying(rank, 8, longest) == (
            programs,
            chunk,
            {"R": rank, "RP": columns, "ROWS": step, "num_warps": 1},
        )
