"""The page as text."""
