"""The command line: one file (or folder) per command, each imported only when it is called.

The only layer that prints. It asks the client and the store's opening, and knows no SQL and no driver.
"""
