"""Measure what an operator with many streams costs while there is nothing to do."""
