"""HTML for notebooks: tables, texts and a graph. Nothing of a record acts in a browser, or hides in one."""
