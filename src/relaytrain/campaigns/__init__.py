"""Trainings made to learn from: what to train, with shared beginnings, over processes, resumable; out come traces."""
