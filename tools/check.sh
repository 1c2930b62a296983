#!/usr/bin/env bash
# Checks style and types of the checkout, as .ci/run does of a copy: ruff, then mypy --strict.
# mypy follows no import hooks, so an editable install isn't enough for it: it gets a folder of links
# that looks like the installed package. Arguments go to mypy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

view="build/view"
rm -rf "$view"
mkdir -p "$view/nnconv"
for entry in nnconv/*; do
    [[ $entry == */__pycache__ ]] || ln -s "$PWD/$entry" "$view/nnconv/"
done
ln -s "$PWD/backends" "$PWD/schemas" "$PWD/cli.py" "$view/nnconv/"

failed=0
ruff check . || failed=1
ruff format --check . || failed=1
(cd "$view" && mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p nnconv "$@") || failed=1
exit "$failed"
