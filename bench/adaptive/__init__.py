"""The two experiments of CLASH, Fig. 8: a plan that stays, and one that follows the data."""
