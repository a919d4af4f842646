"""The points of the tables that are no sweeps: errors by kind of input, first calls."""

from experiments.sweeps import Point

# Shapes of the checks before (experiments/correctness.py): nothing is compiled for these alone.
ACCURACY_SHAPES = ((1823, 781), (2, 50_257), (1, 131_072))
ACCURACY_SMALL = ((5, 781), (2, 1000))  # what the interpreter does in seconds
ACCURACY_INPUTS = (
    "normal",
    "outliers",
    "shifted by 1e4",
    "long tails",
    "near-uniform",
    "one-hot",
    "-inf masks",
)
# All multiples of 16 in one power of two.
FIRST_CALL_POINTS = tuple(Point("float32", 64, cols) for cols in range(2304, 4097, 256))
FIRST_CALL_VARIANTS = ("torch_eager", "triton_row", "triton_constant", "torch_compile")
