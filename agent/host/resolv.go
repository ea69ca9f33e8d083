package host

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// ResolvConf returns the resolver file that pods should inherit from:
// /etc/resolv.conf, or the one behind it when /etc/resolv.conf only points at
// a resolver on the loopback interface, which a pod cannot reach. It returns
// "" when the machine has no resolver file, and usable = false when every
// name server it knows is on the loopback interface.
func ResolvConf() (path string, usable bool) { return resolvConf("/") }

func resolvConf(root string) (string, bool) {
	const standard, systemd = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"
	if _, err := os.Stat(filepath.Join(root, standard)); err != nil {
		return "", false
	}
	for _, path := range []string{standard, systemd} {
		if hasRemoteServer(filepath.Join(root, path)) {
			return path, true
		}
	}
	return standard, false
}

func hasRemoteServer(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil && !addr.IsLoopback() {
			return true
		}
	}
	return false
}
