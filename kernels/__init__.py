"""Softmax kernels: one file per variant, listed in :mod:`kernels.registry`."""
