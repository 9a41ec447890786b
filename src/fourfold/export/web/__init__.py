"""Models in browsers: pages that run them, and a local server for these pages."""
