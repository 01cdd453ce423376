"""Pages: tables, plots, the facts of the machine, and the parts of a page that are written anew."""
