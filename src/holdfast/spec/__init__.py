"""The language of `*.holdfast` files: what a messaging app consists of, declared instead of coded."""
