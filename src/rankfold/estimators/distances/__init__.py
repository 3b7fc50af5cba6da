"""Distances from features or between points, learned from pairs or triplets."""
