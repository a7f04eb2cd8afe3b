"""Snapshots of EBS volumes, taken and restored through EC2."""
