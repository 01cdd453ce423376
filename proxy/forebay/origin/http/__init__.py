"""HTTP/1.1 to the origin over connections of our own."""
