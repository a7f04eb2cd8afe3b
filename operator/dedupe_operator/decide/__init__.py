"""What to do, from what is: values in, values out, the clock an argument."""
