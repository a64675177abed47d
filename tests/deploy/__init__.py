"""What ships: the image, compose, manifests, units, and jobs."""
