"""The build steps of the images."""
