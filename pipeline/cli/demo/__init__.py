"""``toolcall demo``: a scripted model, real tools, and the mistakes that models make."""
