"""From the tree of a query as written to the same query with names and types: the logical plan."""
