"""The report of a completed matrix: one self-contained HTML file."""

from rankfold.report.content import Picture, Report, Tried, singular_values
from rankfold.report.data import Columns, DataSummary
from rankfold.report.page import render, write_report

__all__ = [
    "Columns",
    "DataSummary",
    "Picture",
    "Report",
    "Tried",
    "render",
    "singular_values",
    "write_report",
]
