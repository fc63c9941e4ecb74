"""Texts that keep a compiler busy, by kind and size."""

from hostile_texts import definitions, expressions, indices, statements
from hostile_texts.kinds import KINDS, Hostile

__all__ = ["KINDS", "Hostile", "definitions", "expressions", "indices", "statements"]
