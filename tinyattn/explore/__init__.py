"""Wing, explore: a page that shows attention weights, of a model or of plain arrays."""

from tinyattn.explore.page import Section, explore, fragment
from tinyattn.explore.model_page import sections_of

__all__ = ["Section", "explore", "fragment", "sections_of"]
