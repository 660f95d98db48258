"""Measuring what the layer saves and what it keeps."""
