#!/bin/sh
# Prints the version of a build. The release that is being made is the newest one
# in the changelog: until its commit has its tag, a build says that it comes before
# it, and which commit it is of.
set -eu
cd "$(dirname "$0")/.."

release=v$(sed -n 's/^## \([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p' CHANGELOG.md | head -n 1)
if ! commit=$(git rev-parse --verify --quiet --short HEAD); then
	echo "$release-dev"
	exit
fi
dirty=
git diff --quiet HEAD || dirty=-dirty
if git tag --points-at HEAD | grep -qxF "$release"; then
	echo "$release$dirty"
else
	echo "$release-dev.$commit$dirty"
fi
