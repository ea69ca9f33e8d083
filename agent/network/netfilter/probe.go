package netfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

// Mode is a way to program the kernel's packet filter.
type Mode string

// The modes. Auto stands for Nftables where it works and Iptables elsewhere.
const (
	Auto     Mode = "auto"
	Nftables Mode = "nftables"
	Iptables Mode = "iptables"
)

// Support says what works on this machine; a nil error means that it does.
type Support struct {
	Nftables error
	Iptables error
}

// Oldest versions that kube-proxy's nftables mode is made for. The kernel
// bound is upstream's; older ones have the syntax and lack fixes.
var (
	minKernel = [3]int{5, 13, 0}
	minNft    = [3]int{1, 0, 1}
)

// probeScript uses every feature that kube-proxy, flannel and the port
// mapping plugin rely on. The kernel applies it and takes it back in the same
// transaction.
const probeScript = `
add table ip a4s-probe
add chain ip a4s-probe pre { type nat hook prerouting priority -100 ; }
add chain ip a4s-probe post { type nat hook postrouting priority 100 ; }
add chain ip a4s-probe forwarding { type filter hook forward priority 0 ; }
add chain ip a4s-probe target
add set ip a4s-probe ips { type ipv4_addr ; }
add map ip a4s-probe services { type ipv4_addr . inet_proto . inet_service : verdict ; }
add element ip a4s-probe services { 192.0.2.1 . tcp . 80 : goto target }
add rule ip a4s-probe pre ip daddr . meta l4proto . th dport vmap @services
add rule ip a4s-probe pre fib daddr type local ip saddr @ips return
add rule ip a4s-probe forwarding ct state invalid drop
add rule ip a4s-probe target numgen random mod 2 vmap { 0 : accept, 1 : drop }
add rule ip a4s-probe target meta l4proto tcp dnat to 192.0.2.2:80
add rule ip a4s-probe post meta mark & 0x4000 != 0 masquerade fully-random
delete table ip a4s-probe
`

// Probe tries both modes on the running kernel.
func Probe(ctx context.Context) Support {
	return Support{Nftables: probeNftables(ctx), Iptables: probeIptables(ctx)}
}

func probeNftables(ctx context.Context) error {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("uname: %w", err)
	}
	release := unix.ByteSliceToString(uts.Release[:])
	if v, ok := parseVersion(release); ok && less(v, minKernel) {
		return fmt.Errorf("kernel %s is older than %s", release, join(minKernel))
	}
	out, err := run(ctx, "", "nft", "--version")
	if err != nil {
		return err
	}
	if v, ok := parseVersion(string(out)); !ok || less(v, minNft) {
		return fmt.Errorf("%s is older than %s", strings.TrimSpace(string(out)), join(minNft))
	}
	if _, err := run(ctx, probeScript, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("the kernel refused a test table: %w", err)
	}
	return nil
}

func probeIptables(ctx context.Context) error {
	_, err := run(ctx, "", "iptables", "-w", "5", "-t", "nat", "-S", "PREROUTING")
	return err
}

// Choose resolves the wanted mode against what works. source names the flag
// that wanted came from; the string says why, for the log.
func Choose(ctx context.Context, source string, wanted Mode) (Mode, string, error) {
	switch wanted {
	case "", Auto, Nftables, Iptables:
		return Probe(ctx).choose(source, wanted)
	default:
		return "", "", &problem.Input{Source: source, Value: string(wanted), Want: `"auto", "nftables" or "iptables"`}
	}
}

func (s Support) choose(source string, wanted Mode) (Mode, string, error) {
	const fix = "install the Debian packages nftables and iptables or their like, and a kernel that has them"
	switch wanted {
	case Nftables:
		if s.Nftables != nil {
			return "", "", &problem.Precondition{What: source + "=nftables", Err: s.Nftables,
				Fix: "update nftables or the kernel, or use iptables"}
		}
		return Nftables, source, nil
	case Iptables:
		if s.Iptables != nil {
			return "", "", &problem.Precondition{What: source + "=iptables", Err: s.Iptables,
				Fix: "install iptables, or use nftables"}
		}
		return Iptables, source, nil
	default:
		if s.Nftables == nil {
			return Nftables, "the kernel accepted a test table", nil
		}
		if s.Iptables == nil {
			return Iptables, "nftables does not work here: " + s.Nftables.Error(), nil
		}
		return "", "", &problem.Precondition{What: "packet filter", Err: errors.Join(s.Nftables, s.Iptables), Fix: fix}
	}
}

var versionPattern = regexp.MustCompile(`(\d+)\.(\d+)(?:\.(\d+))?`)

func parseVersion(s string) ([3]int, bool) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return [3]int{}, false
	}
	var v [3]int
	for i, part := range m[1:] {
		if part != "" {
			_, _ = fmt.Sscanf(part, "%d", &v[i]) // the pattern admits only digits
		}
	}
	return v, true
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func join(v [3]int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// run runs a command and puts what it said on standard error into the error.
func run(ctx context.Context, stdin string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		msg := strings.TrimSpace(stderr.String())
		if msg == "" {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s: %w: %s", name, err, firstLines(msg, 3))
	}
	return stdout.Bytes(), nil
}

func firstLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[:min(n, len(lines))], "; ")
}
