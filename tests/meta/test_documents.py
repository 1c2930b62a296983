"""What the documents say exists: commands, options, files; what they show of Python runs."""

import re
import shlex
import subprocess
import sys
import textwrap

import click
import pytest
from nnconv.cli import cli

import nnconv
from support.places import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def code_lines(text):
    """The lines of a document's code blocks, fenced and indented."""
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip()


def python_blocks(text):
    """The code blocks of a document, fenced and indented, that are Python."""
    yield from re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE):
        code = textwrap.dedent(block).strip("\n")
        if re.match(r"(import|from) ", code):
            yield code


SNIPPETS = [
    pytest.param(code, id=f"{document.stem}-{number}")
    for document in DOCUMENTS
    for number, code in enumerate(python_blocks(document.read_text(encoding="utf-8")))
]


def nnconv_calls(text):
    """The arguments of each call of nnconv in a document's code blocks."""
    for line in code_lines(text):
        for part in re.split(r"&&|\|", line):
            words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else []
            if words and words[0].rpartition("/")[2] == "nnconv":
                yield words[1:]


def test_readme_shows_every_command():
    shown = {call[0] for call in nnconv_calls((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert shown == set(cli.commands)


def test_documented_commands_and_options_exist():
    wrong = []
    for document in DOCUMENTS:
        for name, *rest in nnconv_calls(document.read_text(encoding="utf-8")):
            command = cli.commands.get(name)
            known = {o for p in command.params for o in p.opts} if command else set()
            options = {word.partition("=")[0] for word in rest if word.startswith("--")}
            if not options <= known:
                wrong.append((document.name, name, sorted(options - known)))
    assert wrong == []


def test_the_documents_show_python():
    shown = {parameter.id.rpartition("-")[0] for parameter in SNIPPETS}
    assert shown >= {"README", "devices", "nnapi", "nnrt"}


@pytest.mark.parametrize("code", SNIPPETS)
def test_what_the_documents_show_runs_as_it_stands(code, tmp_path):
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_links_between_documents_resolve():
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("marker", ["first", "test"])
def test_readme_marks_the_commands_that_the_check_runs(marker):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^<!-- {marker} command -->\n```sh\n\S.*\n```$", text, re.MULTILINE)


def test_readme_command_converts_a_file_that_exists():
    calls = nnconv_calls((ROOT / "README.md").read_text(encoding="utf-8"))
    first = next(call for call in calls if call[0] == "convert")
    assert (ROOT / first[1]).is_file()


def test_every_option_says_what_it_does():
    silent = [
        f"{name} {parameter.name}"
        for name, command in cli.commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert silent == []


@pytest.mark.parametrize("name", ["nnapi", "nnrt"])
def test_example_of_a_file_is_a_model(name, tmp_path):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    (text,) = re.findall(r'^    \{"format".*?(?=\n\n)', page, re.MULTILINE | re.DOTALL)
    twin = tmp_path / "model.json"
    twin.write_text(text, encoding="utf-8")
    model = nnconv.load(twin)
    assert ([v.name for v in model.inputs], [v.name for v in model.outputs]) == (["x"], ["y"])
