"""Chapter 11: tables, pages, pictures, progress. matplotlib is imported when a picture is made."""
