"""Faults of a world: `plan` draws them from the seed before the world runs, `injector` carries them out."""
