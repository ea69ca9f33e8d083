package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
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
	// MAC, MTU, Addresses and Routes are what the guest's interface must have.
	MAC       net.HardwareAddr
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

// Manager attaches pods. Its methods may be called concurrently for different
// pods.
type Manager struct{ opts Options }

// New returns a Manager.
func New(o Options) *Manager { return &Manager{opts: o} }

// Status returns an error if no pod can be attached at the moment.
func (m *Manager) Status(ctx context.Context) error { return errors.ErrUnsupported }

// Setup makes the namespace of a pod and attaches it. On an error nothing is
// left.
func (m *Manager) Setup(ctx context.Context, p Pod) (*Attachment, error) {
	return nil, errors.ErrUnsupported
}

// Get returns an attachment that was set up before, maybe by another process,
// or ErrUnknown.
func (m *Manager) Get(id string) (*Attachment, error) { return nil, errors.ErrUnsupported }

// Check returns an error if the attachment is not as it was set up.
func (m *Manager) Check(ctx context.Context, id string) error { return errors.ErrUnsupported }

// Tap makes the tap device of an attachment for a virtual machine. It lives as
// long as somebody holds the file; it can be made anew when nobody does.
func (m *Manager) Tap(id string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Teardown undoes Setup, however far that came. An attachment that does not
// exist is no error.
func (m *Manager) Teardown(ctx context.Context, id string) error { return errors.ErrUnsupported }

// List returns the ids of all attachments, whole or not.
func (m *Manager) List() ([]string, error) { return nil, errors.ErrUnsupported }
