"""What the data can tell: entries held out, the rank chosen by them, and what stays undetermined."""
