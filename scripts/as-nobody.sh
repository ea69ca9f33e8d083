#!/bin/sh
# Runs a program as a user without rights, for `go test -exec`: tests that need
# a kernel of their own skip themselves then.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cp "$1" "$dir/test"
chown -R nobody "$dir"
shift
HOME=$dir setpriv --reuid=nobody --regid=nogroup --clear-groups "$dir/test" "$@"
