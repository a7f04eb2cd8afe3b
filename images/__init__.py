"""How our images are made."""
