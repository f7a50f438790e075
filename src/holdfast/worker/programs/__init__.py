"""One program per message, in whatever language, and all that it starts."""
