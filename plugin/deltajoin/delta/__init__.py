"""Epochs, row identity, strategy and the DeltaPlan: what a run will read and write."""
