"""``toolcall lint``: what is wrong with tools and with the texts that they give a model."""
