"""The client: what users hold. Everyday verbs are its own, operators' verbs are on the nouns beside this folder."""
