"""Cleaning: file slices that no reader needs any more are deleted, by plans on the timeline."""
