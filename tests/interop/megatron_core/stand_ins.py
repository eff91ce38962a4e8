"""Empty classes under Megatron's names, so that torch.load(weights_only=True) takes its files."""
import argparse
import sys
import types

import numpy

ENUMS = {
    "megatron.core.enums": ["ModelType"],
    "megatron.core.transformer.enums": ["AttnBackend"],
    "megatron.core.rerun_state_machine": ["RerunState", "RerunMode", "RerunDiagnostic"],
}


class StandIn:
    """A member of an enum, by its value."""

    def __init__(self, value):
        self.value = value


def stand_in(module, name):
    for depth in range(len(module.split("."))):
        part = ".".join(module.split(".")[:depth + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    made = type(name, (StandIn,), {"__module__": module})
    setattr(sys.modules[module], name, made)
    return made


def safe_globals():
    """What weights_only=True must be allowed to load: args, enums, and numpy's part of the random state."""
    multiarray = numpy._core.multiarray
    return [argparse.Namespace, numpy.ndarray, numpy.dtype, numpy.dtypes.UInt32DType,
            (multiarray._reconstruct, "numpy.core.multiarray._reconstruct"),
            (multiarray._reconstruct, "numpy._core.multiarray._reconstruct"),
            *[stand_in(module, name) for module, names in ENUMS.items() for name in names]]
