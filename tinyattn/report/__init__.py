"""Wing, reports: tables, pages, pictures, progress. A picture imports matplotlib when made."""

from tinyattn.report.table import Column, table

__all__ = ["Column", "table"]
