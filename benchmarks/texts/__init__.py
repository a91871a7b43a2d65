"""Which texts does a model follow? Asks a model for its second attempt at calls that failed, once for each text."""
