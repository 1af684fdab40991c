"""What was found about each broken law: the documentation, or another reason."""

NOTES: dict[tuple[str, str], str] = {}
"""By package and law."""
