"""The commands that stand alone: a first application, its plan, the run and its status."""
