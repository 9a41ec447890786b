"""What can be told of a model: advice on its form, and how far its values are from a runtime's."""
