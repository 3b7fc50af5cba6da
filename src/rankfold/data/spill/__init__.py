"""Entries that outgrow memory: sorted on disk, and opened as a folder of sorted files."""
