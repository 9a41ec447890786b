"""Small nodes one after the other in one kernel."""
