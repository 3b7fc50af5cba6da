"""The report of a completed matrix: one self-contained HTML file."""

from rankfold.report.content import DataSummary, Report, singular_values
from rankfold.report.page import render, write_report

__all__ = ["DataSummary", "Report", "render", "singular_values", "write_report"]
