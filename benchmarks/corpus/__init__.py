"""Recorded calls of real models: are they accepted, repaired or refused, and do the texts suffice to recover?"""
