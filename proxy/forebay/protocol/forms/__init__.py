"""Form uploads (POST Object): the multipart/form-data reader, the signed policy, the fields."""
