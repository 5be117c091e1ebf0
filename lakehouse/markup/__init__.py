"""Values for people: as HTML for notebooks, and as text. No part of a record acts in a browser, or hides in it."""
