"""How a token is chosen, by every set of operators; without torch, for figures."""

TEMPERATURE, TOP_K, TOP_P = 0.8, 50, 0.9
