"""``toolcall demo``: a conversation full of the mistakes that models make."""
