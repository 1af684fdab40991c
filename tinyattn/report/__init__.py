"""Wing, reports: tables, pages, plots, progress bars. Only drawing a plot imports matplotlib."""

from tinyattn.report.text_table import Column, table

__all__ = ["Column", "table"]
