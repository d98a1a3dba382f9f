"""The cases: what is attacked, mechanism by mechanism; each module registers its own."""
