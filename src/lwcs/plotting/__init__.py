"""Figures, with the Display API of scikit-learn."""
