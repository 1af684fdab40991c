"""Chapter 11: pictures. Imported only when one is asked for."""
