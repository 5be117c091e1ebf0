"""HTML for notebooks: tables and texts. Nothing of a record acts in a browser, or hides in one."""
