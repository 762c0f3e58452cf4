"""Control of a running engine: queries come and go, asked for by its own process or by others."""
