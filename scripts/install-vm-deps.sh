#!/bin/sh
# Installs what only tests with virtual machines need: an emulator, tools to make
# a guest's disk, and what the images of such tests are made of.
set -eu
packages="qemu-system-x86 debootstrap e2fsprogs cpio kmod busybox-static"
missing=
for p in $packages; do
	case $(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true) in
	ii*) ;;
	*) missing="$missing $p" ;;
	esac
done
[ -n "$missing" ] || exit 0
echo "Installing:$missing"
apt-get update -q
# shellcheck disable=SC2086 # one package a word
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
