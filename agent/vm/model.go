package vm

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/guest"
)

// idBytes is the size of an id. Sockets are below directories named by ids,
// and the path of a socket has 108 bytes.
const idBytes = 16

func newID() string {
	b := make([]byte, idBytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// message is a protobuf message in a record.
type message[T any, P interface {
	*T
	proto.Message
}] struct{ P P }

// MarshalJSON implements json.Marshaler.
func (m message[T, P]) MarshalJSON() ([]byte, error) { return protojson.Marshal(m.P) }

// UnmarshalJSON implements json.Unmarshaler.
func (m *message[T, P]) UnmarshalJSON(data []byte) error {
	m.P = new(T)
	// A record of a newer release may say more.
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m.P)
}

type (
	sandboxConfig   = message[runtimeapi.PodSandboxConfig, *runtimeapi.PodSandboxConfig]
	containerConfig = message[runtimeapi.ContainerConfig, *runtimeapi.ContainerConfig]
)

// phase is where in its life a sandbox is.
type phase string

const (
	// phaseCreating: RunPodSandbox has not returned. After a restart of the
	// service such a sandbox is removed: nobody knows its id.
	phaseCreating phase = "creating"
	phaseReady    phase = "ready"
	// phaseStopped: the machine is gone or on its way.
	phaseStopped phase = "stopped"
)

// sandboxRecord is what is on disk of a sandbox.
type sandboxRecord struct {
	ID      string        `json:"id"`
	Config  sandboxConfig `json:"config"`
	Handler string        `json:"handler"`
	Phase   phase         `json:"phase"`
	Created time.Time     `json:"created"`
	// Size is that of the machine.
	Size size `json:"size"`
	// IPs are the pod's addresses.
	IPs []string `json:"ips,omitempty"`
	// BootsDisk says that its machine is, or will be, booted from the disk of
	// its container's image, and not with the embedded guest.
	BootsDisk bool `json:"bootsDisk,omitempty"`
	// CleanedUp says that nothing of it is left on the machine.
	CleanedUp bool `json:"cleanedUp,omitempty"`
}

// containerState mirrors the CRI's.
type containerState string

const (
	// stateCreating: CreateContainer has not returned. After a restart of the
	// service such a container is removed: nobody knows its id.
	stateCreating containerState = "creating"
	stateCreated  containerState = "created"
	stateRunning  containerState = "running"
	stateExited   containerState = "exited"
)

// Reasons of exited containers, as the kubelet shows them.
const (
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonOOMKilled = "OOMKilled"
	// reasonUnknown: the machine ended and took the exit code with it.
	reasonUnknown = "Unknown"
)

// Exit codes of containers that nobody waited for.
const (
	exitUnknown = 255 // as containerd has it
	exitKilled  = 128 + 9
)

// containerRecord is what is on disk of a container.
type containerRecord struct {
	ID        string          `json:"id"`
	SandboxID string          `json:"sandboxID"`
	Config    containerConfig `json:"config"`
	// ImageName, ImageRef and ImageID are what the CRI calls so.
	ImageName string `json:"imageName"`
	ImageRef  string `json:"imageRef"`
	ImageID   string `json:"imageID"`
	LogPath   string `json:"logPath,omitempty"`
	// StopSignal is what asks it to end, "SIGTERM".
	StopSignal string `json:"stopSignal,omitempty"`
	// Process is what it runs; further processes in it are like that.
	Process guest.Process `json:"process"`
	// Disk says that the machine boots the disk of its image.
	Disk bool `json:"disk,omitempty"`

	State    containerState `json:"state"`
	Created  time.Time      `json:"created"`
	Started  time.Time      `json:"started,omitzero"`
	Finished time.Time      `json:"finished,omitzero"`
	ExitCode int            `json:"exitCode"`
	Reason   string         `json:"reason,omitempty"`
	Message  string         `json:"message,omitempty"`
	User     *userIDs       `json:"user,omitempty"`
	// Released says that nothing of it is left but record and log.
	Released bool `json:"released,omitempty"`
}

// userIDs are who a container runs as.
type userIDs struct {
	UID    int64   `json:"uid"`
	GID    int64   `json:"gid"`
	Groups []int64 `json:"groups,omitempty"`
}

// sandbox is one pod.
type sandbox struct {
	id, name string
	created  time.Time

	// life is held by what changes the machine: one at a time.
	life sync.Mutex

	mu      sync.Mutex
	record  sandboxRecord
	machine *machine // nil if none runs
	// stopping says that the end of the machine was asked for.
	stopping bool
}

// running returns the pod's machine, nil if none runs.
func (p *sandbox) running() *machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine
}

func newSandbox(r sandboxRecord) *sandbox {
	return &sandbox{id: r.ID, name: sandboxName(r.Config.P.GetMetadata()), created: r.Created, record: r}
}

// get returns the record as it is now. What it points at is never changed.
func (p *sandbox) get() sandboxRecord {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record
}

// container is one container of a pod.
type container struct {
	id, name string
	created  time.Time
	labels   map[string]string
	pod      *sandbox
	output   output

	// life is held by what starts, stops or removes the container.
	life sync.Mutex
	// ended is closed when it has exited, and its record says so.
	ended chan struct{}
	once  sync.Once // for closing it
	// killed says that its machine was ended by force; pod.mu guards it.
	killed bool

	mu     sync.Mutex
	record containerRecord
}

func newContainer(p *sandbox, r containerRecord) *container {
	c := &container{
		id: r.ID, name: containerName(r.SandboxID, r.Config.P.GetMetadata()), created: r.Created,
		labels: r.Config.P.GetLabels(), pod: p, ended: make(chan struct{}), record: r,
	}
	if r.State == stateExited {
		close(c.ended)
	}
	return c
}

func (c *container) get() containerRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record
}
