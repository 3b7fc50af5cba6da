"""The one driver of every method: clock, stopping, trace, progress, checkpoints and results."""
