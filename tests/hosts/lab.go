package hosts

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Prefix begins the name of everything that outlives a Host until clean-up.
const Prefix = "a4s-e2e-"

// Lab is a bridge, the hosts on it and the directory that holds their state.
type Lab struct {
	// Dir is the directory of the lab; it goes when the lab closes.
	Dir string
	// Gateway is the machine's own address on the bridge: the hosts' default
	// route and name server.
	Gateway net.IP

	id       string
	lock     *os.File
	bridge   *netlink.Bridge
	sysctls  map[string]string
	resolver *resolver

	mu    sync.Mutex
	hosts []*Host
	made  int
}

// NewLab removes what an earlier run left and makes an empty lab. It fails at
// once while another lab is open on this machine.
func NewLab() (_ *Lab, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("end-to-end tests make namespaces: run them as root")
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), Prefix+"lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another end-to-end run is active: %s: %w", lock.Name(), err)
	}
	l := &Lab{id: fmt.Sprintf("%04x", rand.N(1<<16)), lock: lock}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := removeLeftovers(); err != nil {
		return nil, fmt.Errorf("removing the leftovers of an earlier run: %w", err)
	}
	if l.sysctls, err = globalSysctls(); err != nil {
		return nil, err
	}
	if err := allowFileWatches(); err != nil {
		return nil, err
	}
	if l.Dir, err = os.MkdirTemp("", Prefix); err != nil {
		return nil, err
	}
	if err := checkDisk(l.Dir); err != nil {
		return nil, err
	}
	if err := makeMountPoints(l.Dir); err != nil {
		return nil, err
	}
	if err := l.makeBridge(); err != nil {
		return nil, fmt.Errorf("making the bridge of the lab: %w", err)
	}
	if l.resolver, err = startResolver(l.Gateway); err != nil {
		return nil, fmt.Errorf("starting the name server of the lab: %w", err)
	}
	return l, nil
}

// neededDisk is what a run of all hosts takes, in bytes, and some to spare.
const neededDisk = 8 << 30

// checkDisk finds a disk without room for the hosts before their kubelets do,
// whose pods then wait in vain for most of an hour.
func checkDisk(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("asking for the room on the disk of %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < neededDisk {
		return fmt.Errorf("the disk of %s has %d MiB free, the hosts need %d: free some, or set TMPDIR",
			dir, free>>20, neededDisk>>20)
	}
	return nil
}

// NewHost makes a host with the given short name. The caller closes it, or
// leaves that to the lab.
func (l *Lab) NewHost(ctx context.Context, name string) (*Host, error) {
	l.mu.Lock()
	l.made++
	h := &Host{
		Name: name,
		IP:   net.IPv4(l.Gateway[12], l.Gateway[13], l.Gateway[14], byte(l.made)),
		lab:  l,
		link: fmt.Sprintf("%s%sh%d", linkPrefix, l.id, l.made),
		dir:  filepath.Join(l.Dir, fmt.Sprintf("%d-%s", l.made, name)),
	}
	h.cgroup = fmt.Sprintf("%s%s-%d", Prefix, l.id, l.made)
	l.hosts = append(l.hosts, h)
	l.mu.Unlock()
	if err := h.start(ctx); err != nil {
		h.Close()
		return nil, fmt.Errorf("making host %s: %w", name, err)
	}
	return h, nil
}

// Close ends the hosts and removes all that the lab made. It may be called
// more than once.
func (l *Lab) Close() {
	l.mu.Lock()
	all := l.hosts
	l.mu.Unlock()
	var ended sync.WaitGroup
	for _, h := range all {
		ended.Go(h.Close)
	}
	ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resolver != nil {
		l.resolver.close()
		l.resolver = nil
	}
	if l.bridge != nil {
		if err := netlink.LinkDel(l.bridge); err != nil {
			log.Printf("removing bridge %s: %v", l.bridge.Name, err)
		}
		l.bridge = nil
	}
	for name, value := range l.sysctls {
		if err := os.WriteFile(name, []byte(value), 0); err != nil {
			log.Printf("restoring %s: %v", name, err)
		}
	}
	if l.Dir != "" {
		if err := removeDir(l.Dir); err != nil {
			log.Printf("removing the directory of the lab: %v", err)
		}
	}
	l.lock.Close()
}

// fileWatches limits the inotify instances of a user. A node has about twenty,
// and several nodes are one user here, who has 128 by default.
const fileWatches, enoughFileWatches = "fs/inotify/max_user_instances", 1024

func allowFileWatches() error {
	path := filepath.Join("/proc/sys", fileWatches)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n >= enoughFileWatches {
		return err
	}
	return os.WriteFile(path, strconv.AppendInt(nil, enoughFileWatches, 10), 0)
}

// globalSysctls reads those settings that have no namespace and that a kubelet
// changes, or the lab: here a host is not a machine of its own.
func globalSysctls() (map[string]string, error) {
	values := map[string]string{}
	for _, name := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", fileWatches} {
		path := filepath.Join("/proc/sys", name)
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		values[path] = string(b)
	}
	return values, nil
}
