"""What is joined: streams as files, queries as values that every system's text is made from."""
