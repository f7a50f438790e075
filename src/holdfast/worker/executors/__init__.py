"""Where handlers run: in threads, on an event loop, in processes of their own."""
