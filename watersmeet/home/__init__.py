"""The home folder on disk: names, files, lock, manifest, recovery. Imports only `errors`, `points` and `model`."""
