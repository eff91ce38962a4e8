"""Equality of all that a file has."""
import torch


def expect_same(found, expected, where):
    if isinstance(expected, dict):
        assert set(found) == set(expected), (where, set(found) ^ set(expected))
        for key, value in expected.items():
            expect_same(found[key], value, f"{where} {key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for i, value in enumerate(expected):
            expect_same(found[i], value, f"{where} {i}")
    elif isinstance(expected, torch.Tensor):
        # torch's own Adam takes a step that is a number as well.
        assert torch.equal(torch.tensor(found) if isinstance(found, float) else found, expected), where
    else:
        assert found == expected, (where, found, expected)
