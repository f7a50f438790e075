"""What has to be done now and then, in every process that runs consumers, by one of them at a time.

A duty is a module with `EVERY` (seconds) and `turn(hf)`, which does a bounded piece of it and says how much it found.
All duties are safe if several processes do them at once; the leader's lease only saves work.
"""
