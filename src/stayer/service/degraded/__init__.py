"""What to do while a store answers in part, late, or not at all."""
