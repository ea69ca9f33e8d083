#!/bin/sh
# Packs what a machine without a network needs into one archive:
#
#   scripts/airgap.sh PROGRAM ARCHIVE [FILE...]
#
# PROGRAM is a4s (dist/a4s-linux-amd64, or for arm64). ARCHIVE becomes a .tar.zst with one
# directory, a4s-airgap: the program, the image of a4s for control planes in
# pods, install.sh, the FILEs, and a checksum of each. Other images are not
# needed: what nodes run themselves is in the program.
#
# The same input gives the same bytes. ZSTD_LEVEL (19) says how hard to pack.
set -eu

if [ $# -lt 2 ] || [ ! -x "$1" ]; then
	echo "usage: $0 PROGRAM ARCHIVE [FILE...]" >&2
	exit 2
fi
program=$(realpath "$1")
archive=$(realpath -m "$2")
shift 2
for f in "$@"; do
	[ -f "$f" ] || {
		echo "$0: there is no file $f" >&2
		exit 2
	}
done
level=${ZSTD_LEVEL:-19}
here=$(dirname "$0")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
dir=$work/a4s-airgap
mkdir -p "$dir" "$(dirname "$archive")"
arch=$(go version -m "$program" | sed -n 's/^.*GOARCH=//p')
[ -n "$arch" ] || {
	echo "$0: $program does not say for which architecture it is" >&2
	exit 2
}
cp "$program" "$dir/a4s-linux-$arch"
cp "$here/install.sh" "$@" "$dir/"
# One for another machine cannot say it.
version=$("$program" --version 2>/dev/null | awk 'NR == 1 { print $2 }') || true
[ -n "$version" ] || version=$("$here/version.sh")
image=a4s-image-linux-$arch.tar
(cd "$here/.." && go run ./scripts/mkimage --arch "$arch" --name "docker.io/a4s/a4s:$version" --file "$program=/a4s" \
	--dir /tmp=1777 --entrypoint /a4s --out "$dir/$image")
zstd -q --rm "-$level" -T0 "$dir/$image"
chmod 755 "$dir/install.sh" "$dir/a4s-linux-$arch"
(cd "$dir" && for f in *; do sha256sum "$f" >"$f.sha256"; done)

tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=go-w -cf - a4s-airgap |
	zstd -q -f "-$level" -T0 -o "$archive.new"
mv "$archive.new" "$archive"
