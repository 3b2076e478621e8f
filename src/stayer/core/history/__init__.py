"""What an attempt leaves behind: when it ran, and what was left out of its log."""
