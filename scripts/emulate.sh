#!/bin/sh
# Runs a command while the kernel runs programs of another architecture, and what
# they start, by QEMU:
#
#   scripts/emulate.sh amd64|arm64 COMMAND [ARGUMENT...]
#
# Where the machine does so already, that stays.
set -eu
# The header of such a program: 64 bits, little-endian, an executable or a library, for the machine.
case ${1-} in
arm64) cpu=aarch64 machine='\xb7' ;;
amd64) cpu=x86_64 machine='\x3e' ;;
*)
	echo "usage: $0 amd64|arm64 COMMAND [ARGUMENT...]" >&2
	exit 2
	;;
esac
[ "$cpu" != "$(uname -m)" ] || {
	echo "$0: this machine runs programs of $1 itself" >&2
	exit 2
}
shift
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'$machine'\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
formats=/proc/sys/fs/binfmt_misc
format=a4s-$cpu-$$

[ -e $formats/register ] || mount -t binfmt_misc none $formats
emulated=
for f in "$formats"/*; do
	case ${f##*/} in register | status | a4s-*) continue ;; esac # others of this script end with it
	if grep -q "^interpreter .*/qemu-$cpu\(-static\)\{0,1\}$" "$f" && grep -q '^enabled' "$f" && grep -q '^flags:.*F' "$f"; then
		emulated=1
	fi
done
if [ -z "$emulated" ]; then
	trap '[ ! -e "$formats/$format" ] || echo -1 >"$formats/$format"' EXIT
	trap 'exit 1' HUP INT TERM
	# F: the kernel opens the emulator now, so that it is there in other roots as well.
	printf '%s' ":$format:M::$magic:$mask:/usr/bin/qemu-$cpu-static:F" >$formats/register
fi
"$@"
