"""A program that is killed at chosen points, again and again, and the checks that nothing was lost or doubled."""
