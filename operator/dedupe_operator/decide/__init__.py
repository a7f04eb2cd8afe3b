"""Pure decisions of the operator: values in, values out, time an argument."""
