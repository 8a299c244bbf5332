"""
Stand-ins for the libraries that nemo-automodel imports and that loading a configuration does not need: torch and what
builds on it. Anything may be asked of a stand-in; it answers with another one. What they stand for is not tested.
"""

import importlib.abc
import importlib.machinery
import sys
import types

LIBRARIES = frozenset(
    "torch transformers torchdata torchao datasets numpy huggingface_hub safetensors wandb mlflow comet_ml "
    "megatron_fsdp tqdm PIL packaging triton cut_cross_entropy accelerate tiktoken fsspec".split()
)


class StandIn(types.ModuleType):
    """A module, class, function or value of a library that is not here."""

    __path__: list = []
    # transformers' own, which the wheel pins and compares.
    __version__ = "5.18.0"

    def __getattr__(self, name):
        # Python asks for hooks by such names: there are none. A class method's function is asked for by the wheel.
        if name.startswith("__") and name != "__func__":
            raise AttributeError(name)
        member = StandIn(f"{self.__name__}.{name}")
        setattr(self, name, member)
        return member

    def __call__(self, *_args, **_kwargs):
        return StandIn(f"{self.__name__}()")

    def __mro_entries__(self, _bases):
        return ()

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return False

    def __hash__(self):
        return hash(self.__name__)

    def __eq__(self, other):
        return isinstance(other, StandIn) and other.__name__ == self.__name__

    def __repr__(self):
        return self.__name__

    def _same(self, *_operands):
        return self

    # Type unions, generic aliases and constants computed while a module is imported.
    __or__ = __ror__ = __and__ = __rshift__ = __lshift__ = __getitem__ = _same
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = _same

    # A stand-in is the newest version of whatever it stands for.
    def _newest(self, _other):
        return True

    def _older(self, _other):
        return False

    __gt__ = __ge__ = _newest
    __lt__ = __le__ = _older


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in LIBRARIES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def install():
    """Lets `import torch` and its like succeed; where the real library is installed, it is used."""
    sys.meta_path.append(_Finder())
