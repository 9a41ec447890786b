"""Players: each plays plans on one GPU API and knows the facts of its devices."""
