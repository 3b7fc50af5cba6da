"""Measurements, apart from the tests: run each as a module from the root of the repository."""
