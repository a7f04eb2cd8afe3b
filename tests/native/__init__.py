"""Tests of the experimental native path on a broker: `make native-test` builds the extension and runs them."""
