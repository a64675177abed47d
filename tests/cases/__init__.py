"""The cases: public reports as small inputs with the right answer, one test each and its kind around it."""
