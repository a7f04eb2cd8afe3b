"""The schemas of the objects that the chart and the operator write, by minor version of Kubernetes."""
