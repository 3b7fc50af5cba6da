"""scikit-learn faces: each validates its input, calls the library and presents the result."""
