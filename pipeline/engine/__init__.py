"""What each call goes through: its phases, its errors, the chain of stages, and what may begin a body."""
