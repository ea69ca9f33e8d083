#!/bin/sh
# Installs what building and running a4s needs on Debian and is missing here;
# with `test` what its tests need, too: databases, which they run themselves, a client, and
# parts of QEMU; with `vm` what those need that boot machines (`vm-foreign`: of the other architecture), with `gitops`
# those that run Argo CD, with `cross` what building for the other architecture does.
# Quick and silent when nothing is. Go is only checked: Debian 12 has none that
# is new enough, and how to install it is the developer's choice.
set -eu
cd "$(dirname "$0")/.."

# gcc, libc6-dev, libseccomp-dev, pkg-config, make, git: to build. zstd, openssl: the release.
# For make lint: shellcheck. The others: what a node runs, and what its tests look at.
packages="gcc libc6-dev libseccomp-dev pkg-config make git zstd shellcheck openssl ca-certificates
	nftables iptables iproute2 conntrack kmod curl"
# For the parts of virtual machines: images of disks, shared directories, the agent in a guest.
machines="qemu-utils qemu-system-common qemu-guest-agent e2fsprogs"
# Of the architectures that a4s is built for, the one that this machine is not.
foreign=arm64 gcc=gcc-aarch64-linux-gnu emulator=qemu-system-arm own=qemu-system-x86
case $(uname -m) in
aarch64 | arm64)
	foreign=amd64 gcc=gcc-x86-64-linux-gnu emulator=qemu-system-x86
	own="qemu-system-arm qemu-efi-aarch64"
	;;
esac
# The C library of that architecture itself: that of cross compilers has no security updates.
cross="$gcc libc6-dev:$foreign libseccomp-dev:$foreign"
case ${1-} in
'') ;;
test) packages="$packages postgresql mariadb-server-core mariadb-client-core python3-kubernetes $machines" ;;
vm) packages="$packages $machines $own debootstrap cpio busybox-static" ;;
vm-foreign) packages="$packages $emulator qemu-user-static e2fsprogs debootstrap cpio" ;;
gitops) packages="$packages redis-tools" ;; # has the server, too, and starts no service
cross) packages="$packages $cross qemu-user-static" ;;
*)
	echo "usage: $0 [test|vm|vm-foreign|gitops|cross]" >&2
	exit 2
	;;
esac

fail() {
	echo "install-deps: $*" >&2
	exit 1
}

missing=
if command -v dpkg-query >/dev/null; then
	for p in $packages; do
		case $(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true) in
		ii*) ;;
		*) missing="$missing $p" ;;
		esac
	done
else
	for c in gcc pkg-config make git zstd shellcheck openssl nft iptables ip conntrack modprobe curl; do
		PATH=$PATH:/usr/sbin:/sbin command -v $c >/dev/null || missing="$missing $c"
	done
	[ -z "$missing" ] || fail "this is not Debian: install by hand what is missing:$missing (and the headers and static libraries of libc and libseccomp)"
fi

case ${1-} in cross)
	if dpkg-query -W -f '${db:Status-Abbrev}' "libc6-dev-$foreign-cross" 2>/dev/null | grep -q ^ii; then
		fail "libc6-dev-$foreign-cross is installed, and would be linked instead of libc6-dev:$foreign, which has security updates: remove it"
	fi
	;;
esac

if [ -n "$missing" ]; then
	sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || fail "missing packages:$missing: run as root: apt-get install$missing"
		sudo=sudo
	fi
	echo "Installing:$missing"
	export DEBIAN_FRONTEND=noninteractive
	case $missing in *":$foreign"*) $sudo dpkg --add-architecture "$foreign" ;; esac
	$sudo apt-get update -q
	# shellcheck disable=SC2086 # one package a word
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi

# Run in the module, so that a Go that can fetch the version in go.mod does.
want=$(sed -n 's/^go //p' go.mod)
command -v go >/dev/null || fail "Go $want or newer is needed and there is no go in PATH: see https://go.dev/doc/install"
have=$(go env GOVERSION) || fail "Go $want or newer is needed: see https://go.dev/doc/install"
have=${have#go}
if [ "$(printf '%s\n%s\n' "$want" "${have%% *}" | sort -V | head -n 1)" != "$want" ]; then
	fail "Go $want or newer is needed, $(command -v go) is $have: see https://go.dev/doc/install"
fi
