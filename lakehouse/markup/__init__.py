"""HTML for notebooks: tables and texts. No part of a record acts in a browser, or hides in it."""
