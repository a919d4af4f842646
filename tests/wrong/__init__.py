"""Softmaxes with the classic mistakes: the checker must reject every one."""
