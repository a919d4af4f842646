"""Rows that fill the GPU are served by the shape that was the fastest at as many."""

from experiments.goal import goals
from experiments.launches import Gpu, chosen
from experiments.layout import BY_NAME, CONTIGUOUS, Place
from kernels.frontier.select import DEFAULT, MANY

H200 = Gpu(DEFAULT, 90, 132)
OF_A_BATCH = "its rows are a batch's: what was measured for 4,096 rows serves them"
OF_FEW = "128 rows count as few: what was measured for 133 rows serves them"
# The reason beside each; what it costs is told in docs/frontier.md.
OTHERWISE = {
    **{
        Place("float32", 2670, 50_257, layout): OF_A_BATCH
        for layout in (CONTIGUOUS, "in place", "stride N + 8", "stride N + 1", "one element off")
    },
    Place("bfloat16", 4096, 65_536): OF_A_BATCH,
    **{
        Place("float32", 128, 2**20, layout): OF_FEW
        for layout in (CONTIGUOUS, "stride N + 1", "one element off")
    },
}


def test_a_saturated_place_is_served_by_what_was_measured_for_many_rows():
    places = {Place(*g.point, g.place or CONTIGUOUS) for g in goals() if g.number == 1}
    assert len(places) > 100
    served = {p: chosen(BY_NAME[p.layout], p.dtype, p.rows, p.cols, H200) for p in places}
    many = {p: chosen(BY_NAME[p.layout], p.dtype, MANY, p.cols, H200) for p in places}
    assert {p for p in places if served[p] != many[p]} == set(OTHERWISE)
