"""XML documents: strict readers and writers for those that Forebay reads or writes itself."""
