"""What others need to do the same work, in the form that they want it."""
