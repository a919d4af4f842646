"""Adapters to other projects' softmaxes: optional, and their code is theirs."""
