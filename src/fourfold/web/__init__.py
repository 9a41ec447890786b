"""Models in browsers: pages that run them, and a server to try pages with."""
