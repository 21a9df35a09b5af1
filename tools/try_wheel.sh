#!/usr/bin/env bash
# Try an installed fedloom as a newcomer would: its version, the doctor, the README's first example.
# Usage: tools/try_wheel.sh BIN, the folder with python and fedloom of a fresh environment.
set -euo pipefail
bin="$(cd "$1" && pwd)"
readme="$(cd "$(dirname "$0")/.." && pwd)/README.md"
cd "$(mktemp -d)" # away from the sources, so that it is the installed package that is tried
unset PYTHONPATH
"$bin/fedloom" --version
"$bin/fedloom" doctor
awk '/^```/ { inside = 0 } inside; /^```python/ && !seen++ { inside = 1 }' "$readme" >readme.py
"$bin/python" readme.py
test -f scaffold-on-digits/result.json
