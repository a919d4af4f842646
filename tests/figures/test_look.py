"""Every variant has its own look, and the table of looks holds no stray lines."""

from experiments.family import OPERATORS
from experiments.family.others import COPIES
from experiments.sweeps import SWEEPS
from figures.look import LOOKS, drawn, in_order, look
from kernels.registry import BY_NAME

IMPLEMENTATIONS = {each.name for o in OPERATORS.values() for each in o.implementations}


def test_every_implementation_of_an_operator_has_an_explicit_look():
    assert sorted(IMPLEMENTATIONS - set(COPIES) - set(LOOKS)) == []


def test_every_variant_has_an_explicit_look():
    assert [name for name, v in BY_NAME.items() if not v.ceiling and name not in LOOKS] == []


def test_every_look_is_of_a_variant():
    assert sorted(set(LOOKS) - set(BY_NAME) - IMPLEMENTATIONS - {"copy"}) == []


def test_no_two_variants_look_the_same():
    looks = list(LOOKS.values())
    assert len({v.label for v in looks}) == len(looks)
    # In grey the marker is what is left.
    assert len({v.marker for v in looks}) == len(looks)


def is_round(marker: object) -> bool:
    """Whether ``marker`` is a circle, or as good as one at the size of a point."""
    many_corners = isinstance(marker, tuple) and marker[0] >= 10
    return many_corners or marker == "o"


def test_two_of_one_colour_in_a_figure_have_no_alike_circles():
    assert is_round(LOOKS["triton_frontier"].marker)
    for name, sweep in SWEEPS.items():
        mine = [LOOKS[v] for v in sweep.variants if v in LOOKS and is_round(LOOKS[v].marker)]
        assert len({each.colour for each in mine}) == len(mine), name


def test_a_variant_without_a_look_gets_the_same_one_each_time():
    assert look("peer_new") == look("peer_new")
    assert look("peer_new").label == "peer_new"


def test_the_copies_and_the_pair_of_equals_are_no_curves():
    hidden = ["copy_torch", "copy_memcpy", "torch_eager/again"]
    assert [name for name in [*hidden, "copy", "torch_eager"] if drawn(name)] == [
        "copy",
        "torch_eager",
    ]


def test_order_is_that_of_the_table_then_by_name():
    assert in_order(["zeta", "cuda_float4", "alpha", "copy", "copy"]) == [
        "copy", "cuda_float4", "alpha", "zeta",
    ]  # fmt: skip
