"""What puts a lake right, or makes something new of its past."""
