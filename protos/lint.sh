#!/usr/bin/env bash
# Lints the .proto files with buf, from the clone's .venv or from PATH. What they import of google.rpc comes from the
# Python package that brings it, since buf would fetch it from its own registry.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$here/../.venv/bin:$PATH
imports=$(python3 -c 'import google.rpc; print(list(google.rpc.__path__)[0])')
mkdir -p "$work/google/rpc"
cp "$imports/status.proto" "$work/google/rpc/"
cp -r "$here/tiergate" "$here/buf.yaml" "$work/"
cd "$work"
buf lint --path tiergate
