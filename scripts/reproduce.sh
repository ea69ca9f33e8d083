#!/bin/sh
# Builds a release of the current commit twice, in two new directories and with
# two empty build caches, and compares the bytes. It takes two builds from
# nothing, some twenty minutes on two cores; `--shared-cache` keeps the build
# cache and so compares less, in two minutes.
set -eu
cd "$(dirname "$0")/.."
shared=false
case ${1-} in
--shared-cache) shared=true ;;
'') ;;
*)
	echo "usage: $0 [--shared-cache]" >&2
	exit 2
	;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
# Of different lengths, so that a path in the binary would show.
for n in one another-one; do
	git clone -q . "$work/$n/a4s"
	echo "Building in $work/$n"
	(
		cd "$work/$n/a4s"
		$shared || export GOCACHE="$work/$n/cache"
		make dist/program >/dev/null
		cd dist && sha256sum -- *
	) >"$work/$n.sums"
	rm -rf "${work:?}/$n"
done
if ! diff "$work/one.sums" "$work/another-one.sums"; then
	echo "two builds of $(git rev-parse --short HEAD) differ" >&2
	exit 1
fi
echo "Two builds of $(git rev-parse --short HEAD) are the same:"
cat "$work/one.sums"
