"""Read and write the topics next to the output."""
