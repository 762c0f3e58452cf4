"""Control of a running engine: queries are added and dropped, by its own process or by others."""
