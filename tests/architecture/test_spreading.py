"""Long tests stand evenly among the others."""

from tests.spreading import spread


def test_long_tests_stand_evenly_among_the_others() -> None:
    files = [[f"{name}{number}" for number in range(10)] for name in "abcdef"]
    order = spread(["x", "y", "z"], files)
    assert order == ["x", *files[0], *files[1], "y", *files[2], *files[3], "z", *files[4], *files[5]]
    assert spread(["x", "y"], [["a"]]) == ["x", "a", "y"]
