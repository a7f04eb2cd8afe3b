"""Decisions of the operator as pure functions: values in, values out, the clock an argument."""
