"""Judges indicators against objectives and says why; pure."""
