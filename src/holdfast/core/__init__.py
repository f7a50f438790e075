"""Pure rules. No I/O, no clock, no randomness, no import from the other layers: values in, values out.

Every rule that SQL has to repeat (claiming, expiry, splitting of a run) is stated here first, and the
model test holds the stores to it.
"""
