"""Secret parameters: which places are secret, and arguments, refusals, repairs and texts without their values.

Most of it is imported at first use: few tools declare a secret.
"""
