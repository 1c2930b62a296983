"""The command line: options, printing and exit codes. Each command's body calls nnconv."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import nnconv
from nnconv.arguments import (
    API_OPTION,
    INPUTS_OPTION,
    LEVEL_OPTION,
    MODEL_FILE,
    SEED,
    SHAPES_OPTION,
    TARGET_FILE,
    TARGET_FOLDER,
    THREADS,
    by_name,
    choice_option,
    name_and_file,
    read_array,
    save_arrays,
)
from nnconv.console import (
    describe_array,
    describe_file,
    describe_report,
    describe_shape,
    describe_value,
    print_json,
    print_table,
    say,
    show_check,
    show_model,
    show_verification,
    working,
)
from nnconv.errors import BackendError, ExitCode, NnconvError, UnsupportedError, UsageError, plural
from nnconv.formats import FORMATS
from nnconv.outlive import outlive

if TYPE_CHECKING:
    import numpy as np

INTERNAL_ERROR = int(ExitCode.INTERNAL)
"""Exit code when nnconv itself is at fault (EX_SOFTWARE of sysexits.h)."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Session:
    """What the options of one run say about how to report.

    Attributes:
        as_json: results, and errors too, are one JSON object on stdout.
        debug: an internal error shows its traceback.
        is_process: the run is all that its process does.
    """

    def __init__(self) -> None:
        """Start with the defaults."""
        self.as_json = False
        self.debug = False
        self.is_process = False


# --------------------------------------------------------------------------- options


def _note_json(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - click calls it so
    context.find_object(Session).as_json |= value  # type: ignore[union-attr]
    return value


def _note_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click calls it so
    context.find_object(Session).debug |= value  # type: ignore[union-attr]


def common_options(command: Command) -> Command:
    """Add the options that every command has."""
    command = click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=_note_json,
        help="Print one JSON object, errors included.",
    )(command)
    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_debug,
        help="Show the traceback of an internal error.",
    )(command)


FORMAT = click.Choice(FORMATS)


# --------------------------------------------------------------------------- commands


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(nnconv.__version__, prog_name="nnconv")
def cli() -> None:
    """Convert neural-network models between formats, and run them.

    \b
    Exit codes: 0 fine, 1 results differ, 2 usage, 3 bad input file,
    4 unsupported, 5 a runtime failed, 70 internal error.
    """  # noqa: D301 - \b is click's mark for text that must not be wrapped


@cli.command()
@click.argument("src", type=MODEL_FILE)
@click.argument("dst", type=TARGET_FILE)
@click.option("--from", "source_format", type=FORMAT, help="SRC's format. [default: by content]")
@click.option("--to", "target_format", type=FORMAT, help="DST's format. [default: by suffix]")
@click.option("--verify", is_flag=True, help="Run both models on the same inputs and compare.")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Seed of the inputs of --verify."
)
@SHAPES_OPTION
@click.option("--opset", type=int, help="ONNX opset to write.")
@LEVEL_OPTION
@API_OPTION
@choice_option("--io-layout", ["keep", "nhwc", "nchw"], "Layout of image-like inputs and outputs.")
@choice_option(
    "--int8",
    ["resign", "keep"],
    "int8 activations inside an ONNX model: as uint8 (exact, much faster) or as they are.",
)
@choice_option(
    "--quant",
    ["keep", "integer", "float"],
    "Keep codes; keep to integers even where LiteRT is slow at them; or floats inside.",
)
@click.option("--signature", metavar="NAME", help="Entry point to convert. [default: the first]")
@common_options
def convert(
    *,
    src: Path,
    dst: Path,
    input_shapes: Sequence[tuple[str, tuple[int, ...]]],
    as_json: bool,
    **options: Any,
) -> int:
    """Convert the model SRC to DST.

    The formats are told by SRC's content and DST's suffix, unless given.
    """
    with working(f"converting {src.name}"):
        shapes = by_name("--input-shape", input_shapes)
        report = nnconv.convert(src, dst, input_shapes=shapes or None, **options)
    if as_json:
        print_json(report.as_dict())
    else:
        for line in describe_report(report):
            say(line)
        if report.verification is not None:
            show_verification(report.verification)
    return ExitCode.DIFFERS if report.verified is False else ExitCode.OK


@cli.command()
@click.argument("model", type=MODEL_FILE)
@click.option("--graph", "show_graph", is_flag=True, help="Print every node, as nnconv reads it.")
@common_options
def inspect(*, model: Path, show_graph: bool, as_json: bool) -> None:
    """Show what the file MODEL holds: entry points, inputs, outputs, ops, weights.

    Models with ops that nnconv can't convert are shown too; those ops are listed.
    """
    from nnconv.formats import summarize

    summary = summarize(model)
    facts = describe_file(model, summary)
    try:
        loaded = nnconv.load(model)
    except UnsupportedError as error:
        facts["unsupported"] = _describe_items(error)
    else:
        for shown, signature in zip(facts["signatures"], loaded.signatures, strict=True):
            shown["states"] = [
                {**describe_value(state.input), "name": state.name} for state in signature.states
            ]
        if show_graph:
            from nnconv.ir.printer import print_model

            facts["graph"] = print_model(loaded)
    if as_json:
        print_json(facts)
    else:
        show_model(facts)


@cli.command()
@click.argument("model", type=MODEL_FILE)
@INPUTS_OPTION
@click.option("--output-dir", type=TARGET_FOLDER, help="Folder to save each output in, as .npy.")
@click.option(
    "--device",
    default="onnxruntime:cpu",
    show_default=True,
    help="See nnconv devices. Several, with commas between, share the model's nodes.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random inputs.")
@SHAPES_OPTION
@click.option("--signature", metavar="NAME", help="Entry point to run. [default: the first]")
@click.option("--threads", type=THREADS, help="Threads. [default: the runtime's]")
@common_options
def run(
    *,
    model: Path,
    inputs: Sequence[str],
    output_dir: Path | None,
    device: str,
    seed: int,
    input_shapes: Sequence[tuple[str, tuple[int, ...]]],
    as_json: bool,
    **options: Any,
) -> None:
    """Run MODEL once on a device and show its outputs."""
    shapes = by_name("--input-shape", input_shapes)
    options["input_shapes"] = shapes or None
    chosen = {name: value for name, value in options.items() if value is not None}
    if click.get_current_context().ensure_object(Session).is_process:
        outlive(f"{model} on {device}")
    with working(f"running {model.name}"):
        executable = nnconv.compile(model, device, **chosen)
        infos = {i.name: i for i in executable.inputs}
        names = [*infos, *(state.input.name for state in executable.states), *executable.aliases]
        pairs = [name_and_file(text, names) for text in inputs]
        given = by_name("--input", [(executable.aliases.get(n, n), path) for n, path in pairs])
        feeds = {name: read_array(name, path) for name, path in given.items()}
        drawn: dict[str, np.ndarray] = {}
        if missing := [info for name, info in infos.items() if name not in feeds]:
            from nnconv.diff.inputs import meanings_of, random_inputs

            known = meanings_of(model, signature=options["signature"], input_shapes=shapes)
            drawn = random_inputs(missing, seed=seed, known=known)
        results = executable.run({**drawn, **feeds})
    files = save_arrays(results, output_dir) if output_dir else {}
    facts = [describe_array(name, array) for name, array in results.items()]
    for fact in facts:
        if fact["name"] in files:
            fact["file"] = str(files[fact["name"]])
    if as_json:
        seconds = executable.last_seconds
        found = {"device": executable.device, "seconds": seconds, "random_inputs": sorted(drawn)}
        print_json({**found, "outputs": facts})
        return
    if drawn:
        say(f"random inputs (seed {seed}): {', '.join(drawn)}")
    rows = [
        (
            fact["name"],
            fact["dtype"],
            describe_shape(fact["shape"]),
            *("" if fact[key] is None else f"{fact[key]:.6g}" for key in ("min", "mean", "max")),
            fact.get("file", ""),
        )
        for fact in facts
    ]
    title = f"{executable.device}, {1000 * executable.last_seconds:.3g} ms"
    print_table(title, ("output", "dtype", "shape", "min", "mean", "max", "file"), rows)


@cli.command()
@click.argument("model", type=MODEL_FILE)
@click.option("--to", type=FORMAT, required=True, help="The format to hold MODEL.")
@LEVEL_OPTION
@API_OPTION
@click.option("--opset", type=int, help="ONNX's. [default: the least that will do]")
@SHAPES_OPTION
@click.option("--signature", metavar="NAME", help="Entry point to look at. [default: the first]")
@common_options
def check(
    *,
    model: Path,
    input_shapes: Sequence[tuple[str, tuple[int, ...]]],
    as_json: bool,
    **options: Any,
) -> int:
    """Tell what keeps MODEL from being written in a format; nothing is written.

    Every operation that is out of reach is listed, with what would help. Exit code 4 if any is. A
    file with an NNAPI model is held to NNAPI's own rules with --to nnapi, one with an NNRt model to
    NNRt's with --to nnrt.
    """
    with working(f"checking {model.name}"):
        shapes = by_name("--input-shape", input_shapes)
        found = nnconv.check(model, input_shapes=shapes or None, **options)
    if as_json:
        print_json(found.as_dict())
    else:
        show_check(found)
    return ExitCode.OK if found.passed else ExitCode.UNSUPPORTED


@cli.command()
@click.argument("a", type=MODEL_FILE)
@click.argument("b", type=MODEL_FILE, required=False)
@click.option("--device-a", metavar="DEVICE", help="What runs A. [default: its format's runtime]")
@click.option("--device-b", metavar="DEVICE", help="What runs B. [default: its format's runtime]")
@INPUTS_OPTION
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random inputs.")
@SHAPES_OPTION
@click.option("--signature", metavar="NAME", help="Entry points to compare. [default: the first]")
@choice_option(
    "--io-layout",
    ["keep", "nhwc", "nchw"],
    "What B's image-like inputs and outputs were moved to, if A's are not.",
)
@common_options
def diff(
    *,
    a: Path,
    b: Path | None,
    inputs: Sequence[str],
    input_shapes: Sequence[tuple[str, tuple[int, ...]]],
    as_json: bool,
    **options: Any,
) -> int:
    """Run A and B, or A on two devices, on the same inputs and compare what they give.

    Inputs and outputs belong together by name, or by place where the names differ. A file with one
    entry point is taken as it is. Exit code 1 if an output differs by more than its type allows.
    """
    from nnconv.diff.models import diff_models, inputs_of

    if b is None and options["device_b"] is None:
        raise UsageError("one model on one device is nothing to compare: give B or --device-b")
    with working(f"comparing {a.name}"):
        shapes = by_name("--input-shape", input_shapes)
        names = inputs_of(a, signature=options["signature"]) if inputs else []
        given = by_name("--input", [name_and_file(text, names) for text in inputs])
        feeds = {name: read_array(name, path) for name, path in given.items()}
        found = diff_models(a, b or a, inputs=feeds, input_shapes=shapes, **options)
    if as_json:
        print_json(found.as_dict())
    else:
        show_verification(found)
    return ExitCode.OK if found.passed else ExitCode.DIFFERS


@cli.command()
@common_options
def devices(*, as_json: bool) -> None:
    """List the devices that models can run on."""
    found = nnconv.devices()
    if as_json:
        print_json({"devices": [device.as_dict() for device in found]})
        return
    rows = [
        (device.name, device.type, "yes" if device.available else "no", device.note)
        for device in found
    ]
    print_table("devices", ("name", "type", "available", "note"), rows)


@cli.command()
@click.option("--format", "format_name", type=FORMAT, help="Only this format's ops.")
@common_options
def ops(*, format_name: str | None, as_json: bool) -> None:
    """Show which formats and devices know which ops; with --format, what one can read and write.

    Rows are nnconv's own ops, which a format may spell as several operations: those of its version
    that is named, or (parts) other ops. What has an ONNX form runs on onnxruntime, what has one in
    TFLite on LiteRT. What can be read has the format's own names.
    """
    from nnconv.backends import reference_ops

    from nnconv.formats.support import op_support, support_matrix

    tables = {name: op_support(name) for name in ([format_name] if format_name else FORMATS)}
    kernels = reference_ops()
    if as_json:
        facts = {name: support._asdict() for name, support in tables.items()}
        matrix = {row.op: row.forms for row in support_matrix(kernels)}
        print_json({**facts, "reference": sorted(kernels), "matrix": matrix})
        return
    if format_name is None:
        rows = [
            (row.op, *row.forms.values(), "yes" if row.reference else "")
            for row in support_matrix(kernels)
        ]
        print_table(plural(len(rows), "op"), ("op", *FORMATS, "reference"), rows)
        return
    for name, support in tables.items():
        rows = [(op,) for op in support.read]
        print_table(f"{name}: {plural(len(rows), 'op')} read", ("op",), rows)
        written = [(op, how, "yes" if op in kernels else "") for op, how in support.write.items()]
        title = f"{name}: {len(written)} of nnconv's ops written"
        print_table(title, ("op", "form", "reference"), written)


# --------------------------------------------------------------------------- errors and exit codes


def _describe_items(error: UnsupportedError) -> list[dict[str, str]]:
    return [
        {
            "op": item.op,
            "where": item.where,
            "why": item.why,
            "reason": item.reason.value,
            "hint": item.hint,
        }
        for item in error.items
    ]


def _report_error(error: NnconvError, session: Session) -> int:
    for line in f"error: {error}".split("\n"):
        say(line, err=True, color="red")
    items = {"items": _describe_items(error)} if isinstance(error, UnsupportedError) else {}
    _print_error(session, error, error.message, error.exit_code, hint=error.hint, **items)
    return int(error.exit_code)


def _print_error(
    session: Session, error: Exception, message: str, code: int, *, hint: str = "", **more: Any
) -> None:
    """Print an error as JSON, if JSON was asked for."""
    if session.as_json:
        kind = "UsageError" if isinstance(error, click.ClickException) else type(error).__name__
        facts = {"kind": kind, "message": message, "hint": hint, "exit_code": int(code)}
        print_json({"error": {**facts, **more}})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: what follows the program's name; None takes ``sys.argv``'s.

    Returns:
        The exit code: an ``ExitCode``, 70 for an internal error, 130 after an interrupt.
    """
    session = Session()
    session.is_process = arguments is None
    try:
        code = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="nnconv",
            standalone_mode=False,
            obj=session,
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        # An option that comes before the mistake is known to the session, one behind it isn't.
        session.as_json |= "--json" in (sys.argv[1:] if arguments is None else arguments)
        _print_error(session, error, error.format_message(), ExitCode.USAGE)
        with contextlib.suppress(OSError):  # of a lost stderr nobody can be told
            error.show()
        return ExitCode.USAGE
    except click.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except NnconvError as error:
        return _report_error(error, session)
    except MemoryError as error:
        if session.debug:
            raise
        text = f"there isn't enough memory: {error}".removesuffix(": ")
        return _report_error(BackendError(text), session)
    except Exception as error:  # the one broad except: a user gets a line, never a traceback
        if session.debug:
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        say(
            f"error: internal error ({what}). This is a bug in nnconv: please report it, with the "
            "output of the same command and --debug.",
            err=True,
            color="red",
        )
        _print_error(session, error, f"internal error ({what})", INTERNAL_ERROR)
        return INTERNAL_ERROR
    return int(code or ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
