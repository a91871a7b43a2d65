"""``toolcall lint``: what models stumble over in tools, in the texts of their errors, and in their source."""
