"""Chapter 9: tasks, which say what to learn."""
