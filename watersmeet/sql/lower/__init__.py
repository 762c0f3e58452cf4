"""From a resolved query to the forms in which it can be computed."""
