package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
)

// DefaultCacheDir is where the CNI library records what it attached; it is
// containerd's too.
const DefaultCacheDir = "/var/lib/cni"

// Interface is the name of a pod's interface.
const Interface = "eth0"

// ErrHostNetwork says that a pod asks for the node's own network.
var ErrHostNetwork = errors.New("a virtual machine cannot share the network of the node: hostNetwork must be false")

// ErrUnknown says that there is no attachment of that name.
var ErrUnknown = errors.New("no such attachment")

// Options configure a Manager.
type Options struct {
	// Dir is where namespaces and records are kept. It should be gone after a
	// reboot, as these are.
	Dir string
	// ConfDir and BinDirs are the node's CNI configuration and plugins.
	ConfDir string
	BinDirs []string
	// CacheDir is the CNI library's; empty means DefaultCacheDir.
	CacheDir string
}

// Pod is the pod to attach.
type Pod struct {
	// ID is the sandbox's.
	ID string
	// Namespace, Name and UID are the pod's.
	Namespace, Name, UID string
	// HostNetwork pods are refused.
	HostNetwork bool
	// PortMappings are the node's ports that lead to the pod.
	PortMappings []PortMapping
	// Annotations and CgroupParent are handed to plugins that ask for them.
	Annotations  map[string]string
	CgroupParent string
	// DNS servers, search domains and options, likewise.
	Servers, Searches, Options []string
}

// PortMapping is a port of the node that leads to the pod. The names are those
// of the CNI convention.
type PortMapping struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"` // "tcp", "udp" or "sctp"
	HostIP        string `json:"hostIP,omitempty"`
}

// Attachment is a pod on the network.
type Attachment struct {
	// ID is the sandbox's.
	ID string
	// Namespace is the path of the network namespace.
	Namespace string
	// MAC (as text), MTU, Addresses and Routes are what the guest's interface must have.
	MAC       string
	MTU       int
	Addresses []netip.Prefix
	Routes    []Route
}

// Route is a route of the guest.
type Route struct {
	Destination netip.Prefix
	// Gateway is not valid if the destination is on the link.
	Gateway netip.Addr
}

// undoTimeout is how long it may take to undo what could not be finished.
const undoTimeout = time.Minute

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Manager attaches pods. Its methods may be called concurrently for different
// pods.
type Manager struct {
	opts Options
	cni  *libcni.CNIConfig
}

// New returns a Manager.
func New(o Options) *Manager {
	if o.CacheDir == "" {
		o.CacheDir = DefaultCacheDir
	}
	exec := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: os.Stderr}, PluginDecoder: version.PluginDecoder{}}
	return &Manager{opts: o, cni: libcni.NewCNIConfigWithCacheDir(o.BinDirs, o.CacheDir, exec)}
}

// Status returns an error if no pod can be attached at the moment.
func (m *Manager) Status(ctx context.Context) error {
	list, err := m.load()
	if err != nil {
		return err
	}
	for _, p := range list.Plugins {
		if _, err := invoke.FindInPath(p.Network.Type, m.opts.BinDirs); err != nil {
			return fmt.Errorf("CNI plugin of network %s: %w", list.Name, err)
		}
	}
	return m.cni.GetStatusNetworkList(ctx, list)
}

// Setup makes the namespace of a pod and attaches it. On an error nothing is
// left. A pod that is attached already stays as it is.
func (m *Manager) Setup(ctx context.Context, p Pod) (_ *Attachment, err error) {
	if p.HostNetwork {
		return nil, ErrHostNetwork
	}
	if !validID.MatchString(p.ID) {
		return nil, fmt.Errorf("attaching pod %s/%s: %q is no id of a sandbox", p.Namespace, p.Name, p.ID)
	}
	wrap := func(err error) error {
		return fmt.Errorf("attaching pod %s/%s to the network: %w", p.Namespace, p.Name, err)
	}
	old, err := m.read(p.ID)
	switch {
	case err == nil && old.Attachment != nil:
		return old.Attachment, nil
	case err == nil: // it was never finished
		if err := m.Teardown(ctx, p.ID); err != nil {
			return nil, wrap(err)
		}
	case !errors.Is(err, ErrUnknown):
		return nil, wrap(err)
	}
	list, err := m.load()
	if err != nil {
		return nil, wrap(err)
	}
	for _, dir := range []string{m.opts.Dir, filepath.Join(m.opts.Dir, namespaces)} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, wrap(err)
		}
	}
	rec := record{Pod: p, Config: list.Bytes}
	if err := m.write(rec); err != nil {
		return nil, wrap(err)
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
			defer cancel()
			err = errors.Join(wrap(err), m.Teardown(ctx, p.ID))
		}
	}()
	if err := createNamespace(m.namespace(p.ID)); err != nil {
		return nil, err
	}
	if _, err := m.cni.AddNetworkList(ctx, list, m.runtimeConf(p)); err != nil {
		return nil, err
	}
	if rec.Attachment, err = inspect(m.namespace(p.ID)); err != nil {
		return nil, err
	}
	rec.Attachment.ID = p.ID
	return rec.Attachment, m.write(rec)
}

// Get returns an attachment that was set up before, maybe by another process,
// or ErrUnknown.
func (m *Manager) Get(id string) (*Attachment, error) {
	rec, err := m.read(id)
	if err != nil {
		return nil, err
	}
	if rec.Attachment == nil {
		return nil, fmt.Errorf("%s was not finished: %w", id, ErrUnknown)
	}
	return rec.Attachment, nil
}

// Check returns an error if the attachment is not as it was set up.
func (m *Manager) Check(ctx context.Context, id string) error {
	rec, err := m.read(id)
	if err != nil {
		return err
	}
	list, err := libcni.NetworkConfFromBytes(rec.Config)
	if err != nil {
		return err
	}
	return m.cni.CheckNetworkList(ctx, list, m.runtimeConf(rec.Pod))
}

// Tap makes the tap device of an attachment for a virtual machine. It lives as
// long as somebody holds the file; it can be made anew when nobody does.
func (m *Manager) Tap(id string) (*os.File, error) {
	a, err := m.Get(id)
	if err != nil {
		return nil, err
	}
	return openTap(a)
}

// Teardown undoes Setup, however far that came. An attachment that does not
// exist is no error.
func (m *Manager) Teardown(ctx context.Context, id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("%q is no id of a sandbox", id)
	}
	if err := m.detach(ctx, id); err != nil {
		return fmt.Errorf("detaching sandbox %s from the network: %w", id, err)
	}
	if err := removeNamespace(m.namespace(id)); err != nil {
		return err
	}
	if err := os.Remove(m.recordPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// detach has the plugins undo what they did.
func (m *Manager) detach(ctx context.Context, id string) error {
	rec, err := m.read(id)
	if errors.Is(err, ErrUnknown) {
		return m.detachRecorded(ctx, id)
	}
	if err != nil {
		return err
	}
	list, err := libcni.NetworkConfFromBytes(rec.Config)
	if err != nil {
		return err
	}
	conf := m.runtimeConf(rec.Pod)
	if !isNamespace(conf.NetNS) {
		conf.NetNS = "" // the plugins free what is outside of it
	}
	return m.cni.DelNetworkList(ctx, list, conf)
}

// detachRecorded does it for an attachment that only the CNI library knows:
// its records and its addresses outlive a reboot, ours do not.
func (m *Manager) detachRecorded(ctx context.Context, id string) error {
	known, err := m.cni.GetCachedAttachments(id)
	if err != nil {
		return err
	}
	for _, a := range known {
		if a.NetNS != m.namespace(id) {
			continue
		}
		list, err := libcni.NetworkConfFromBytes(a.Config)
		if err != nil {
			return err
		}
		conf := &libcni.RuntimeConf{ContainerID: a.ContainerID, IfName: a.IfName, Args: a.CniArgs,
			CapabilityArgs: a.CapabilityArgs}
		if isNamespace(a.NetNS) {
			conf.NetNS = a.NetNS
		}
		if err := m.cni.DelNetworkList(ctx, list, conf); err != nil {
			return err
		}
	}
	return nil
}

// List returns the ids of all attachments, whole or not.
func (m *Manager) List() ([]string, error) {
	var ids []string
	entries, err := os.ReadDir(m.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), recordSuffix); ok && validID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	pinned, err := os.ReadDir(filepath.Join(m.opts.Dir, namespaces))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range pinned {
		ids = append(ids, e.Name())
	}
	recorded, err := m.cni.GetCachedAttachments("")
	if err != nil {
		return nil, err
	}
	for _, a := range recorded {
		if a.NetNS == m.namespace(a.ContainerID) {
			ids = append(ids, a.ContainerID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// namespaces is the directory below Options.Dir in which namespaces are
// pinned.
const namespaces = "ns"

func (m *Manager) namespace(id string) string { return filepath.Join(m.opts.Dir, namespaces, id) }
