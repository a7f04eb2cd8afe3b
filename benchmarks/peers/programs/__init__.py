"""The programs of the peers, each as short as its users would write it."""
