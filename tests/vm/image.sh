#!/bin/sh
# Makes kernel, initrd.gz and root.ext4 for the guest in the directory $1, with
# what the guest installs inside: two builds of a4s, $2 and $3, and the image
# archive $4. What does not depend on those is made once. $5 is the architecture
# of all of it; programs of another one than this machine's run under qemu-user.
set -eu
out=$1
binary=$(realpath "$2")
next=$(realpath "$3")
archive=$(realpath "$4")
installer=$(realpath "$(dirname "$0")/../../scripts/install.sh")
guest=$(realpath "$(dirname "$0")/guest")
emulate=$(realpath "$(dirname "$0")/../../scripts/emulate.sh")
arch=$5
program=a4s-linux-$arch
packages=systemd,systemd-sysv,dbus,udev,iproute2,iptables,nftables,ca-certificates,kmod,procps,conntrack
mkdir -p "$out"
cd "$out"

if [ ! -e base.done ]; then
	rm -rf rootfs kernel busybox
	if [ "$arch" = "$(dpkg --print-architecture)" ]; then
		debootstrap --variant=minbase --include="$packages" bookworm rootfs
	else
		"$emulate" "$arch" debootstrap --arch="$arch" --variant=minbase --include="$packages" bookworm rootfs
	fi
	package=$(apt-cache depends "linux-image-cloud-$arch:$arch" |
		sed -n 's/.*Depends: \(linux-image-[0-9][^:]*\).*/\1/p' | head -n 1)
	mkdir kernel busybox
	(cd kernel && apt-get download "$package:$arch" && dpkg -x ./linux-image-*.deb .)
	(cd busybox && apt-get download "busybox-static:$arch" && dpkg -x ./busybox-static*.deb .)
	version=$(ls kernel/lib/modules)
	# Not dpkg -x into the root: it would replace the link /lib.
	mkdir -p rootfs/usr/lib/modules
	cp -a "kernel/lib/modules/$version" rootfs/usr/lib/modules/
	depmod -b rootfs "$version"
	depmod -b kernel "$version"

	rm -rf initrd
	mkdir -p initrd/bin initrd/modules initrd/dev initrd/proc initrd/sys initrd/root
	cp busybox/bin/busybox initrd/bin/
	for tool in sh mount insmod switch_root sleep; do ln -s busybox "initrd/bin/$tool"; done
	for module in virtio_pci virtio_blk; do
		modprobe -d "$out/kernel" -S "$version" --show-depends $module
	done | awk '/^insmod/ && !seen[$2]++ {print $2}' | while read -r file; do
		cp "$file" initrd/modules/
		basename "$file" >>initrd/modules/list
	done
	install -m 755 "$guest/init" initrd/init
	(cd initrd && find . | cpio --quiet -o -H newc | gzip) >initrd.gz
	cp "kernel/boot/vmlinuz-$version" vmlinuz
	touch base.done
fi

install -m 755 "$guest/job.sh" rootfs/usr/local/bin/job.sh
rm -rf rootfs/opt/a4s
install -D -m 755 "$installer" rootfs/opt/a4s/install.sh
install -D -m 755 "$binary" "rootfs/opt/a4s/first/$program"
install -D -m 755 "$next" "rootfs/opt/a4s/next/$program"
install -m 644 "$archive" rootfs/opt/a4s/first/testbox.tar
for d in first next; do (cd rootfs/opt/a4s/$d && sha256sum "$program" >"$program.sha256"); done
units=rootfs/etc/systemd/system
# Of versions of this script that put a4s in its place themselves.
rm -rf rootfs/usr/local/bin/a4s rootfs/var/lib/a4s $units/a4s.service
install -m 644 "$guest/job.service" $units/
mkdir -p $units/multi-user.target.wants
ln -sf ../job.service $units/multi-user.target.wants/job.service
ln -sf /lib/systemd/system/systemd-networkd.service $units/multi-user.target.wants/systemd-networkd.service
ln -sf /dev/null $units/systemd-networkd-wait-online.service
# They make files of their own when their time comes or the clock is set.
for timer in apt-daily apt-daily-upgrade dpkg-db-backup; do ln -sf /dev/null $units/$timer.timer; done
install -m 644 "$guest/eth.network" rootfs/etc/systemd/network/10-eth.network
echo guest >rootfs/etc/hostname
rm -f root.ext4
truncate -s 6G root.ext4
mke2fs -q -t ext4 -E lazy_itable_init=1,root_owner=0:0 -d rootfs root.ext4
