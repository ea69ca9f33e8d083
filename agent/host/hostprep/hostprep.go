package hostprep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// RecordName is the file below <dataDir>/agent that holds the sysctls as they
// were before a4s.
const RecordName = "sysctls.json"

// Forwarding names the sysctls that let the machine route packets, which other
// container runtimes need too.
var Forwarding = []string{
	"net/ipv4/ip_forward",
	"net/ipv6/conf/all/forwarding",
	"net/bridge/bridge-nf-call-iptables",
	"net/bridge/bridge-nf-call-ip6tables",
}

// modules are those that a node uses and that a kernel may not have loaded.
// Each is optional here: the part that needs it says what is missing.
var modules = []string{"overlay", "br_netfilter", "nf_conntrack", "nf_tables", "vxlan"}

// changed lists the sysctls that a4s, kubelet, kube-proxy or a CNI plugin may
// write, in the order of restoring: ip_forward first, because writing it
// resets others.
var changed = []string{
	"net/ipv4/ip_forward",
	"net/ipv4/conf/all/route_localnet",
	"net/ipv6/conf/all/forwarding",
	"net/bridge/bridge-nf-call-iptables",
	"net/bridge/bridge-nf-call-ip6tables",
	"net/netfilter/nf_conntrack_max",
	"net/netfilter/nf_conntrack_tcp_be_liberal",
	"net/netfilter/nf_conntrack_tcp_timeout_close_wait",
	"net/netfilter/nf_conntrack_tcp_timeout_established",
	"net/netfilter/nf_conntrack_udp_timeout",
	"net/netfilter/nf_conntrack_udp_timeout_stream",
	"vm/overcommit_memory",
	"vm/panic_on_oom",
	"kernel/panic",
	"kernel/panic_on_oops",
	"kernel/keys/root_maxbytes",
	"kernel/keys/root_maxkeys",
	// The limits that pods share, see limits.go.
	"fs/aio-max-nr",
	"fs/file-max",
	"fs/inotify/max_user_instances",
	"fs/inotify/max_user_watches",
	"fs/pipe-user-pages-soft",
	"kernel/keys/maxbytes",
	"kernel/keys/maxkeys",
	"kernel/pid_max",
	"kernel/pty/max",
	"vm/max_map_count",
}

// wanted are the sysctls that a4s sets. Bridged traffic must pass the packet
// filter, or a pod that reaches a pod of the same node by a service address
// gets its answer from the wrong address.
var wanted = []struct {
	key, value string
	required   bool
}{
	{"net/ipv4/ip_forward", "1", true},
	{"net/bridge/bridge-nf-call-iptables", "1", false},
	{"net/bridge/bridge-nf-call-ip6tables", "1", false},
}

// Options say where to work.
type Options struct {
	// RecordFile is where the previous values go: <dataDir>/agent/sysctls.json.
	RecordFile string
	// ProcSys is the sysctl tree; empty means /proc/sys.
	ProcSys string
	// Keep lists keys that Restore leaves as they are.
	Keep []string
	// LeaveLimits keeps Prepare from raising the limits that pods share.
	LeaveLimits bool
	// Log receives what was changed.
	Log *logrus.Entry
}

type record struct {
	// BootID ties the values to one boot: a reboot undoes what was changed.
	BootID string            `json:"bootID"`
	Values map[string]string `json:"values"`
}

// Prepare loads modules, records sysctls, sets those that a node needs and raises
// the limits that pods share.
// Call it before containerd, kubelet or kube-proxy start.
func Prepare(ctx context.Context, o Options) error {
	o = o.withDefaults()
	for _, m := range modules {
		if _, err := os.Stat(filepath.Join("/sys/module", m)); err == nil {
			continue
		}
		if err := exec.CommandContext(ctx, "modprobe", "--quiet", m).Run(); err != nil {
			o.Log.WithError(err).WithField("module", m).Debug("cannot load kernel module; it may be built in")
		}
	}
	if err := o.record(); err != nil {
		return err
	}
	for _, w := range wanted {
		had, err := o.read(w.key)
		if err == nil && had == w.value {
			continue
		}
		if err == nil {
			err = o.write(w.key, w.value)
		}
		name := strings.ReplaceAll(w.key, "/", ".")
		switch {
		case err == nil:
			o.Log.Infof("set sysctl %s=%s (was %s)", name, w.value, had)
		case w.required:
			return &problem.Precondition{What: "sysctl " + name, Err: err, Fix: "set it to " + w.value}
		default:
			o.Log.WithError(err).Warnf("sysctl %s is not %s: pods may not reach services whose pods are on the same "+
				"node; load the module br_netfilter", name, w.value)
		}
	}
	if !o.LeaveLimits {
		o.raiseLimits()
	}
	return nil
}

// Restore puts the recorded values back and removes the record. It returns
// the names of those that it changed; without a record it does nothing.
func Restore(o Options) ([]string, error) {
	o = o.withDefaults()
	rec, err := o.load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	boot, err := o.read("kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("boot id: %w", err)
	}
	var restored []string
	var errs []error
	if rec.BootID == boot {
		for _, key := range changed {
			before, ok := rec.Values[key]
			if !ok || slices.Contains(o.Keep, key) {
				continue
			}
			now, err := o.read(key)
			if errors.Is(err, fs.ErrNotExist) || err == nil && (now == before || raisedByOthers(key, now)) {
				continue
			}
			if err == nil {
				err = o.write(key, before)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("sysctl %s=%s: %w", key, before, err))
				continue
			}
			restored = append(restored, strings.ReplaceAll(key, "/", ".")+"="+before)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return restored, err // the record stays for another try
	}
	if err := os.Remove(o.RecordFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return restored, err
	}
	return restored, nil
}

// record writes the values of now, unless this boot already has them.
func (o Options) record() error {
	boot, err := o.read("kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	rec, err := o.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		o.Log.WithError(err).Warn("the record of sysctls is unreadable; recording anew")
	}
	if err != nil || rec.BootID != boot || rec.Values == nil {
		rec = record{BootID: boot, Values: map[string]string{}}
	}
	added := false
	for _, key := range changed {
		if _, ok := rec.Values[key]; ok {
			continue
		}
		value, err := o.read(key)
		if err != nil {
			continue // this kernel has no such sysctl
		}
		rec.Values[key] = value
		added = true
	}
	if !added {
		return nil
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.RecordFile), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(o.RecordFile, append(data, '\n'), 0o600)
}

func (o Options) load() (record, error) {
	var rec record
	data, err := os.ReadFile(o.RecordFile)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("%s: %w", o.RecordFile, err)
	}
	// Only known names may be written, whatever the file says.
	for key := range rec.Values {
		if !slices.Contains(changed, key) {
			delete(rec.Values, key)
		}
	}
	return rec, nil
}

func (o Options) read(key string) (string, error) {
	data, err := os.ReadFile(filepath.Join(o.ProcSys, key))
	return strings.TrimSpace(string(data)), err
}

func (o Options) write(key, value string) error {
	f, err := os.OpenFile(filepath.Join(o.ProcSys, key), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(value); err != nil {
		_ = f.Close() // the write error says more
		return err
	}
	return f.Close()
}

func (o Options) withDefaults() Options {
	if o.ProcSys == "" {
		o.ProcSys = "/proc/sys"
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", "hostprep")
	}
	return o
}
