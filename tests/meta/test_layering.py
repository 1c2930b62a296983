"""Who may import whom, and where each foreign library may appear."""

import ast
import sys

import nnconv.backends

from meta.sources import package_sources, sources

OPS = ("nnconv.errors", "nnconv.ir", "nnconv.ops")
FORMATS = (*OPS, "nnconv.formats")
LOWERED = (*FORMATS, "nnconv.lowering", "nnconv.passes", "nnconv.pipelines")

LAYERS = {
    "nnconv.errors": (),
    "nnconv.checks": ("nnconv.errors",),
    "nnconv.npy": (),
    "nnconv.ir": ("nnconv.errors",),
    "nnconv.ops": ("nnconv.errors", "nnconv.ir"),
    "nnconv.passes": (*OPS, "nnconv.decompositions"),
    "nnconv.decompositions": OPS,
    "nnconv.formats": (*OPS, "nnconv.decompositions", "nnconv.npy", "nnconv.schemas"),
    "nnconv.schemas": (),
    "nnconv.pipelines": (*OPS, "nnconv.passes"),
    "nnconv.lowering": (*FORMATS, "nnconv.passes", "nnconv.pipelines"),
    "nnconv.backends": (*LOWERED, "nnconv.checks"),
    "nnconv.outlive": ("nnconv.errors",),
    "nnconv.diff": (*LOWERED, "nnconv.backends", "nnconv.checks", "nnconv.outlive"),
    # Its devices are the backends, and its cache keeps what lowering makes for them.
    "nnconv.runtime": (*LOWERED, "nnconv.backends", "nnconv.schemas"),
    "nnconv.conversion": (*LOWERED, "nnconv.backends", "nnconv.checks", "nnconv.diff"),
    "nnconv.reach": (
        "nnconv.checks",
        "nnconv.errors",
        "nnconv.formats",
        "nnconv.ir",
        "nnconv.lowering",
    ),
    "nnconv.arguments": ("nnconv.errors", "nnconv.ir", "nnconv.npy"),
    "nnconv.console": (
        "nnconv.conversion",
        "nnconv.diff",
        "nnconv.errors",
        "nnconv.formats",
        "nnconv.ir",
        "nnconv.reach",
    ),
}
"""For each part of the package, the other parts that it may import. The rest may import all."""

FREE = {"nnconv", "nnconv.__main__", "nnconv.cli"}
"""The modules that may import any part."""

EVERYWHERE = {"numpy"}

LIBRARIES = {
    "ai_edge_litert": ("nnconv.backends.litert",),
    "click": ("nnconv.arguments", "nnconv.cli", "nnconv.console"),
    "flatbuffers": ("nnconv.formats.tflite", "nnconv.backends.litert"),
    "ml_dtypes": ("nnconv.ir", "nnconv.formats", "nnconv.backends"),
    "onnx": ("nnconv.formats.onnx",),
    "onnxruntime": ("nnconv.backends.onnxruntime",),
    "rich": ("nnconv.cli", "nnconv.console"),
    "tflite_runtime": ("nnconv.backends.litert",),
}
"""Each foreign library and the parts of the package that may import it."""

EAGER = {"click": ("nnconv.arguments", "nnconv.cli", "nnconv.console")}
"""Libraries cheap enough for a module's top level, and where; all others wait in functions."""


def is_within(module, part):
    return module == part or module.startswith(f"{part}.")


def imports(source):
    """Every import of a file as (dotted name, node, whether it runs when the module loads)."""
    lazy = set()
    for node in ast.walk(source.tree):
        deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if deferred or typing_only:
            lazy.update(id(child) for child in ast.walk(node))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node, id(node) not in lazy
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield (
                    f"{'.' * node.level}{node.module or ''}.{alias.name}",
                    node,
                    (id(node) not in lazy),
                )


def part_of(module):
    return next((part for part in LAYERS if is_within(module, part)), "")


def format_of(module):
    """``tflite`` for nnconv.formats.tflite and below; empty for what the formats share."""
    known = {"tflite", "onnx", "nnapi", "nnrt"}
    parts = module.split(".")
    ours = parts[:2] == ["nnconv", "formats"] and len(parts) > 2 and parts[2] in known
    return parts[2] if ours else ""


def offences(is_wrong, files):
    """Every import that ``is_wrong(source, name, eager)``, as ``path:line: name``."""
    return [
        f"{source.path}:{node.lineno}: {name}"
        for source in files
        for name, node, eager in imports(source)
        if is_wrong(source, name, eager)
    ]


def test_every_module_belongs_to_a_known_part():
    modules = {source.module for source in package_sources()} - FREE
    assert {m for m in modules if not part_of(m)} == set(), "name its layer in LAYERS"


def test_imports_go_down_the_layers():
    def is_wrong(source, name, _):
        own = part_of(source.module)
        allowed = (own, "nnconv.__version__", *LAYERS.get(own, ()))
        return is_within(name, "nnconv") and not any(is_within(name, part) for part in allowed)

    files = [source for source in package_sources() if source.module not in FREE]
    assert offences(is_wrong, files) == []


def test_formats_do_not_know_each_other():
    def is_wrong(source, name, _):
        own = format_of(source.module)
        return bool(own) and format_of(name) not in {"", own}

    assert offences(is_wrong, package_sources()) == []


def test_backends_are_reached_by_name_alone():
    """Outside of backends only the public names are imported, never one backend's module."""
    public = {f"nnconv.backends.{name}" for name in getattr(nnconv.backends, "__all__", ())}

    def is_wrong(_, name, __):
        return name.startswith("nnconv.backends.") and name not in public

    outside = [
        source
        for source in package_sources()
        if source.module not in FREE and part_of(source.module) != "nnconv.backends"
    ]
    assert offences(is_wrong, outside) == []


def test_foreign_libraries_appear_only_where_they_serve():
    def is_wrong(source, name, _):
        top = name.split(".")[0]
        known = top in sys.stdlib_module_names or top in EVERYWHERE or top == "nnconv"
        homes = LIBRARIES.get(top, ())
        return not known and not any(is_within(source.module, home) for home in homes)

    assert offences(is_wrong, package_sources()) == []


def test_foreign_libraries_are_imported_when_used_not_when_loaded():
    def is_wrong(source, name, eager):
        top = name.split(".")[0]
        return eager and top in LIBRARIES and source.module not in EAGER.get(top, ())

    assert offences(is_wrong, package_sources()) == []


def test_imports_are_absolute_and_never_the_bare_folder_names():
    def is_wrong(_, name, __):
        return name.startswith(".") or name.split(".")[0] in {"backends", "schemas", "cli"}

    assert offences(is_wrong, sources()) == []


def test_every_package_folder_has_an_init():
    folders = {source.path.rpartition("/")[0] for source in package_sources()} - {""}
    having = {s.path.rpartition("/")[0] for s in sources() if s.path.endswith("__init__.py")}
    assert folders - having == set()
