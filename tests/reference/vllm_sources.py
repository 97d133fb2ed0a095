"""Load parts of one release of vLLM without installing it, and without torch.

A directory holds the unpacked Python sources of one release (`DIR/vllm/...`).  The modules of REAL are imported as they
are.  Every other module of `vllm`, and every package that is not installed, is replaced by a module whose names appear
when asked for; a name in LIFTED is then compiled from the release's own file, so that arithmetic is always vLLM's.
"""
import ast
import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types

REAL = (
    "vllm.v1.core.kv_cache_utils", "vllm.v1.core.kv_cache_planning", "vllm.v1.core.kv_cache_config_builder",
    "vllm.v1.kv_cache_interface", "vllm.v1.kv_cache_layout", "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.hisparse", "vllm.v1.hisparse.layout", "vllm.v1.hisparse.types", "vllm.utils.math_utils",
)
LIFTED = {
    "cdiv", "round_up", "round_down", "divide", "get_dtype_size", "format_gib", "nvfp4_kv_cache_full_dim", "GiB_bytes",
    "MultipleOf", "MambaAttentionBackendEnum", "STR_DTYPE_TO_TORCH_DTYPE", "TORCH_DTYPE_TO_STR_DTYPE",
    "get_kv_cache_torch_dtype", "resolve_obj_by_qualname", "align_blocks_to_rows", "nvfp4_kv_cache_split_dims", "ensure_divisibility",
}
STUBBED = ("torch", "vllm", "numpy", "psutil", "cbor2", "msgspec", "xxhash", "transformers", "regex", "cloudpickle")


@functools.cache
def parse(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


class AnyType(type):
    """A class that has every attribute, may be called, indexed, subclassed and joined with `|`."""
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = anything(name)
        setattr(cls, name, value)
        return value

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls

    def __iter__(cls):
        return iter(())


def anything(name):
    def init(self, *args, **keys):
        pass

    def call(self, *args, **keys):  # as a decorator: leave what is decorated alone
        return args[0] if len(args) == 1 and callable(args[0]) else None
    return AnyType(name, (), {"__init__": init, "__call__": call, "__getattr__": lambda self, n: anything(n)()})


class DType:
    """torch.dtype: a name and a size."""
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return "torch." + self.name

    def __deepcopy__(self, memo):
        return self


DTYPES = {name: DType(name, size) for name, size in (
    ("float32", 4), ("float16", 2), ("bfloat16", 2), ("uint8", 1), ("int8", 1), ("float8_e4m3fn", 1), ("float8_e5m2", 1),
    ("int32", 4), ("int64", 8), ("float64", 8), ("bool", 1), ("int16", 2))}


class Lines:
    """What the release's logger was given; `_once` texts are kept once, as the real one does."""
    def __init__(self):
        self.texts, self.once = [], set()

    def add(self, text, args, once):
        text = text % args if args else text
        if once and text in self.once:
            return
        self.once.add(text)
        self.texts.append(text)

    def logger(self, *_):
        def log(once):
            return lambda text, *args, **keys: self.add(text, args, once)
        quiet = lambda *args, **keys: None
        return types.SimpleNamespace(info=log(False), warning=log(False), info_once=log(True), warning_once=log(True),
                                     debug=quiet, debug_once=quiet, error=log(False), isEnabledFor=lambda level: False)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, root):
        self.root, self.lines = root, Lines()

    def path_of(self, name):
        base = os.path.join(self.root, *name.split("."))
        for path in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.exists(path):
                return path
        return None

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in STUBBED:
            return None
        if name in REAL and (file := self.path_of(name)):
            locations = [os.path.dirname(file)] if file.endswith("__init__.py") else None
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=locations)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        if spec.name == "torch":
            module.__dict__.update(DTYPES, half=DTYPES["float16"], float=DTYPES["float32"], dtype=DType)
            module.tensor = lambda data, dtype: types.SimpleNamespace(element_size=lambda: dtype.itemsize)
        if spec.name == "vllm.logger":
            module.init_logger = self.lines.logger
        module.__getattr__ = lambda name: self.attribute(module, name)
        return module

    def exec_module(self, module):
        pass

    def attribute(self, module, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = None
        if name in LIFTED:
            value = self.lift(module.__name__, name, module)
        setattr(module, name, anything(name) if value is None else value)
        return getattr(module, name)

    def lift(self, module_name, name, module=None, names=None):
        """The top-level function, class or constant `name` of a module of the release; None where it is not."""
        path = self.path_of(module_name)
        if path is None:
            return None
        tree = parse(path)
        nodes = [n for n in tree.body if getattr(n, "name", None) == name or
                 any(getattr(t, "id", None) == name for t in getattr(n, "targets", [getattr(n, "target", None)]))]
        if not nodes:
            for n in tree.body:  # the package passes it on: `from .math_utils import cdiv`
                if isinstance(n, ast.ImportFrom) and any((a.asname or a.name) in (name, "*") for a in n.names):
                    source = n.module if not n.level else ".".join(filter(None, (module_name, n.module)))
                    if (value := self.lift(source, name)) is not None:
                        return value
            return None
        importlib.import_module(module_name)  # a lifted class wants its module to exist
        scope = Scope(self, module_name, tree)
        scope.update(names or {})
        future = ast.ImportFrom(module="__future__", names=[ast.alias("annotations")], level=0)
        code = ast.fix_missing_locations(ast.Module([future, *nodes], []))
        exec(compile(code, path, "exec"), scope)
        return scope[name]


class Scope(dict):
    """Globals of lifted code: what the file imports is imported when it is used."""
    def __init__(self, finder, module_name, tree):
        super().__init__(__name__=module_name, __builtins__=__builtins__)
        self.finder, self.module_name, self.tree = finder, module_name, tree

    def __missing__(self, name):
        if hasattr(__import__("builtins"), name):
            raise KeyError(name)
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    if (alias.asname or alias.name).split(".")[0] == name:
                        scope = {"__package__": self.module_name.rpartition(".")[0]}
                        statement = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(
                            node.module, [alias], node.level)
                        exec(compile(ast.fix_missing_locations(ast.Module([statement], [])), "import", "exec"), scope)
                        self[name] = scope[name]
                        return self[name]
        value = self.finder.lift(self.module_name, name)
        self[name] = anything(name) if value is None else value
        return self[name]


def load(root):
    """Make `import vllm...` mean the release under `root`."""
    import typing
    if "typing_extensions" not in sys.modules:
        try:
            import typing_extensions  # noqa: F401
        except ImportError:
            stand_in = types.ModuleType("typing_extensions")
            stand_in.__getattr__ = lambda name: getattr(typing, name, typing.Any)
            sys.modules["typing_extensions"] = stand_in
    finder = Finder(root)
    sys.meta_path.insert(0, finder)
    return finder
