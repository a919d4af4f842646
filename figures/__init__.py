"""The figures: one script each, and the sweep or table that each draws."""

FIGURES: dict[str, str] = {
    "vocab_scaling": "vocab_scaling",
    "fraction_of_copy": "vocab_scaling",
    "triton_paths": "vocab_scaling",
    "batch_scaling": "batch_scaling",
    "batch_latency": "batch_scaling",
    "small_batch": "small_batch",
    "tutorial_cols": "tutorial_cols",
    "course_shapes": "course_shapes",
    "cuda_ladder": "cuda_ladder",
    "worklog": "worklog",
    "launch": "launch",
    "numerics": "numerics",
    "topk": "topk",
    "frontier": "frontier",
    "few_rows": "few_rows",
    "smoke": "smoke",
}

# And those of a table that is no sweep.
TABLE_FIGURES: dict[str, str] = {
    "accuracy": "accuracy.csv",
    "first_call": "first_call.csv",
    "layouts": "layouts.csv",
}

# And those of the transformer's, which is trained where it is asked for by name.
TRANSFORMER_FIGURES: dict[str, str] = {
    "transformer": "training.csv",
    "decoding": "decoding.csv",
}

# That of the operators' errors, which are measured with them.
FAMILY_FIGURES: dict[str, str] = {"operator_accuracy": "family/accuracy.csv"}

# Those of the operators beside the softmax, each with the script that draws its table.
OPERATOR_FIGURES: dict[str, str] = {
    "factors": "operators",
    "masks": "operators",
    "columns": "operator_columns",
    "backward": "operators",
    "cross_entropy": "operators",
    "topk_softmax": "operator_latency",
    "sample": "operator_latency",
    "attention": "attention",
    "calls": "operator_latency",
}
