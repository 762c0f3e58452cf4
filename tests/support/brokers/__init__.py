"""Real servers for the tests of connectors, set up in the folder `.connectors/` of the project."""
