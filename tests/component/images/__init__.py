"""The images, built from the Dockerfile."""
