"""`POST /hook/{name}`: signatures, replay protection, and the rules every delivery goes through."""
