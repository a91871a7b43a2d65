"""The text profiles: each is data, and the templates of the source documents stand beside them."""
