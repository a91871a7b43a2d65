"""The wire formats of model providers: definitions out, calls in, results out. One module of pure functions each."""
