package protocol

import (
	"encoding/json"
	"time"
)

// Version of the protocol that this source speaks.
const Version = 1

// PortName is the name of the virtio-serial port that carries the protocol.
const PortName = "io.a4s.guest"

// SharedTag is the tag of the virtiofs share of a pod. The guest mounts it at
// SharedDir.
const (
	SharedTag = "shared"
	SharedDir = "/run/a4s/shared"
)

// The calls.
const (
	MethodInfo     = "info"
	MethodSetup    = "setup"
	MethodCreate   = "create"
	MethodStart    = "start"
	MethodSignal   = "signal"
	MethodWait     = "wait"
	MethodList     = "list"
	MethodLogs     = "logs"
	MethodStdin    = "stdin"
	MethodResize   = "resize"
	MethodExec     = "exec"
	MethodExecIO   = "exec-io"
	MethodDial     = "dial"
	MethodStats    = "stats"
	MethodUpdate   = "update"
	MethodRemove   = "remove"
	MethodShutdown = "shutdown"
)

// Call opens a stream.
type Call struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Codes of failures that a caller handles.
const (
	CodeNotFound     = "not-found"
	CodeExists       = "exists"
	CodeState        = "wrong-state"
	CodeInvalid      = "invalid"
	CodeNoExecutable = "no-executable"
	CodeUnsupported  = "unsupported"
	CodeInternal     = "internal"
)

// Reply answers a Call.
type Reply struct {
	Code   string          `json:"code,omitempty"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Info says who answers.
type Info struct {
	// Version of the protocol that the guest speaks.
	Version int `json:"version"`
	// BootID is another one after each boot.
	BootID string `json:"bootID"`
	// Kernel release of the guest.
	Kernel string `json:"kernel"`
	// Uptime of the guest.
	Uptime time.Duration `json:"uptime"`
	// Setup reports that the guest was set up since it booted.
	Setup bool `json:"setup"`
}

// Sandbox is what a pod's containers share. Setting up again with the same
// content changes nothing.
type Sandbox struct {
	Hostname string `json:"hostname,omitempty"`
	// Domain is the NIS domain name of the pod's UTS namespace; rarely set.
	Domain     string      `json:"domain,omitempty"`
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Routes beyond those that follow from addresses.
	Routes []Route `json:"routes,omitempty"`
	DNS    DNS     `json:"dns"`
	// Sysctls by their dotted names.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Time sets the guest's clock if it is not zero.
	Time time.Time `json:"time,omitzero"`
	// ShareProcessNamespace puts all containers into one PID namespace.
	ShareProcessNamespace bool `json:"shareProcessNamespace,omitempty"`
	// Shared mounts the virtiofs share SharedTag.
	Shared bool `json:"shared,omitempty"`
	// ShmSize is the size of the pod's /dev/shm in bytes, 64 MiB if zero.
	ShmSize int64 `json:"shmSize,omitempty"`
}

// Interface is a network interface, found by its MAC address.
type Interface struct {
	MAC string `json:"mac"`
	// Name that it gets in the guest, for example eth0.
	Name string `json:"name"`
	MTU  int    `json:"mtu,omitempty"`
	// Addresses in CIDR notation.
	Addresses []string `json:"addresses,omitempty"`
}

// Route is a route of the pod.
type Route struct {
	// Destination in CIDR notation; empty is the default route of the
	// gateway's family.
	Destination string `json:"destination,omitempty"`
	Gateway     string `json:"gateway,omitempty"`
	// Interface is a name of Sandbox.Interfaces; empty is the first one.
	Interface string `json:"interface,omitempty"`
	// OnLink takes a gateway for reachable that no address covers.
	OnLink bool `json:"onLink,omitempty"`
	MTU    int  `json:"mtu,omitempty"`
}

// DNS becomes the containers' /etc/resolv.conf, unless a mount covers it.
type DNS struct {
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// Container is a container to be created.
type Container struct {
	ID string `json:"id"`
	// Root is its root file system.
	Root Disk `json:"root"`
	// ReadonlyRoot makes the root file system read-only for the container.
	ReadonlyRoot bool    `json:"readonlyRoot,omitempty"`
	Mounts       []Mount `json:"mounts,omitempty"`
	// Devices are block devices that appear in the container's /dev.
	Devices []Device `json:"devices,omitempty"`
	Process Process  `json:"process"`
	// Stdin keeps a standard input open for Client.Stdin; without it the
	// process reads from /dev/null.
	Stdin bool `json:"stdin,omitempty"`
	// Privileged leaves /sys and the control groups writable, shows every
	// device of the guest, and grants every capability.
	Privileged    bool      `json:"privileged,omitempty"`
	MaskedPaths   []string  `json:"maskedPaths,omitempty"`
	ReadonlyPaths []string  `json:"readonlyPaths,omitempty"`
	Resources     Resources `json:"resources"`
}

// Disk is a file system on a disk of the machine.
type Disk struct {
	// Serial of the disk as QEMU was told (serial=). It is waited for, so a
	// disk may be plugged in at the same time.
	Serial string `json:"serial"`
	// FSType is ext4 if empty; ext4 and virtiofs modules are there.
	FSType string `json:"fsType,omitempty"`
	// Options as of mount -o, for example noatime.
	Options []string `json:"options,omitempty"`
	// Readonly is for a disk that QEMU was told not to write to.
	Readonly bool `json:"readonly,omitempty"`
}

// The types of a Mount.
const (
	// MountShared is a file or directory below SharedDir.
	MountShared = "shared"
	// MountTmpfs is a new tmpfs.
	MountTmpfs = "tmpfs"
	// MountPod is a directory in the memory of the guest, made when it is first
	// named, that containers of the pod share: an emptyDir of medium Memory.
	MountPod = "pod"
	// MountDisk is a file system on a disk.
	MountDisk = "disk"
)

// Mount is a mount of a container. Mounts happen in order.
type Mount struct {
	Type string `json:"type"`
	// Source is a path relative to the share (MountShared), or a name (MountPod).
	Source string `json:"source,omitempty"`
	// Destination is absolute, in the container. What is missing is made.
	Destination string `json:"destination"`
	Readonly    bool   `json:"readonly,omitempty"`
	// Size in bytes, of MountTmpfs and MountPod; zero is without a limit of
	// its own.
	Size int64 `json:"size,omitempty"`
	// Mode of a new MountTmpfs or MountPod; zero is 0777 with the sticky bit.
	Mode uint32 `json:"mode,omitempty"`
	// Options: noexec, nosuid, nodev, noatime.
	Options []string `json:"options,omitempty"`
	// Disk of MountDisk.
	Disk *Disk `json:"disk,omitempty"`
}

// Device shows a disk as a block device.
type Device struct {
	Serial string `json:"serial"`
	// Path in the container, for example /dev/xvda.
	Path string `json:"path"`
	// Readonly denies writing through the node's mode.
	Readonly bool `json:"readonly,omitempty"`
}

// Process is a program in a container.
type Process struct {
	// Args is the command; Args[0] is looked up in the PATH of Env.
	Args []string `json:"args"`
	// Env as KEY=value. PATH, HOME, HOSTNAME and TERM get defaults.
	Env []string `json:"env,omitempty"`
	// Cwd is made if it is missing; empty is /.
	Cwd  string `json:"cwd,omitempty"`
	User User   `json:"user"`
	// TTY gives the process a terminal; all its output is standard output.
	TTY bool `json:"tty,omitempty"`
	// Size of the terminal at first.
	Size *TerminalSize `json:"size,omitempty"`
	// Capabilities that the process has, as CAP_NAME: as root in all its sets,
	// as another user in the bounding set only, and what is in
	// AmbientCapabilities in all of them. Nil is what a container has by
	// default, empty is none.
	Capabilities        *[]string `json:"capabilities,omitempty"`
	AmbientCapabilities []string  `json:"ambientCapabilities,omitempty"`
	NoNewPrivs          bool      `json:"noNewPrivs,omitempty"`
	Rlimits             []Rlimit  `json:"rlimits,omitempty"`
	OOMScoreAdj         *int      `json:"oomScoreAdj,omitempty"`
}

// User is who a process runs as.
type User struct {
	// Name is user[:group], each a name of the container's /etc/passwd and
	// /etc/group or a number. Empty is root.
	Name string `json:"name,omitempty"`
	// Group overrides the group of Name if it is not nil.
	Group *uint32 `json:"group,omitempty"`
	// Groups are supplementary groups.
	Groups []uint32 `json:"groups,omitempty"`
	// Strict keeps out what the container's /etc/group says of the user
	// (supplementalGroupsPolicy: Strict).
	Strict bool `json:"strict,omitempty"`
}

// Rlimit is a resource limit: RLIMIT_NOFILE and so on.
type Rlimit struct {
	Type string `json:"type"`
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Resources limit a container within its machine. Zero is no limit; in an
// update, zero leaves what is and -1 lifts it.
type Resources struct {
	// MemoryLimit in bytes.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
	// CPUQuota in microseconds of CPU time per CPUPeriod (100 ms if zero).
	CPUQuota  int64 `json:"cpuQuota,omitempty"`
	CPUPeriod int64 `json:"cpuPeriod,omitempty"`
	// CPUShares as of cgroup v1, 2 to 262144.
	CPUShares int64 `json:"cpuShares,omitempty"`
	PidsLimit int64 `json:"pidsLimit,omitempty"`
}

// The states of a container.
const (
	StateCreated = "created"
	StateRunning = "running"
	StateExited  = "exited"
)

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code, or 128 and the signal.
	Code int `json:"code"`
	// Signal that ended it, or zero.
	Signal int `json:"signal,omitempty"`
	// OOM reports that the kernel ended it for want of memory.
	OOM bool `json:"oom,omitempty"`
	// TimedOut reports that an exec was killed when its time was over.
	TimedOut bool      `json:"timedOut,omitempty"`
	At       time.Time `json:"at"`
}

// Container's state.
type ContainerStatus struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	Pid       int       `json:"pid,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// UID and GIDs that the process was started with; GIDs[0] is its group.
	UID  uint32   `json:"uid"`
	GIDs []uint32 `json:"gids,omitempty"`
	Exit *Exit    `json:"exit,omitempty"`
}

// Started answers a start.
type Started struct {
	Pid  int       `json:"pid"`
	At   time.Time `json:"at"`
	UID  uint32    `json:"uid"`
	GIDs []uint32  `json:"gids"`
}

// TerminalSize in characters.
type TerminalSize struct {
	Width  uint16 `json:"width"`
	Height uint16 `json:"height"`
}

// ID names a container.
type ID struct {
	ID string `json:"id"`
}

// SignalRequest sends a signal to a container's first process, or to all of them.
type SignalRequest struct {
	ID     string `json:"id"`
	Signal int    `json:"signal"`
	All    bool   `json:"all,omitempty"`
}

// WaitRequest waits for a container to end.
type WaitRequest struct {
	ID string `json:"id"`
}

// LogsRequest asks for a container's output from an offset on. What is before
// it is acknowledged: the guest forgets it. Records follow the reply
// (WriteRecord), and the caller acknowledges what it has kept (WriteAck).
type LogsRequest struct {
	ID   string `json:"id"`
	From int64  `json:"from"`
}

// ResizeRequest sets the size of a terminal, of a container or of an exec in it.
type ResizeRequest struct {
	ID   string       `json:"id"`
	Exec string       `json:"exec,omitempty"`
	Size TerminalSize `json:"size"`
}

// ExecRequest runs a further process in a container.
type ExecRequest struct {
	ID      string  `json:"id"`
	Process Process `json:"process"`
	Stdin   bool    `json:"stdin,omitempty"`
	// Timeout ends the process with SIGKILL; zero is none.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// ExecStarted answers an ExecRequest. The caller opens the standard streams
// (ExecIORequest), output always, and then sends one more message on the stream
// of the call. The process starts, and when it has ended and its output was
// sent, a Reply with an Exit follows.
type ExecStarted struct {
	Exec string `json:"exec"`
}

// ExecIORequest opens a standard stream of an exec: 0, 1 or 2.
type ExecIORequest struct {
	Exec string `json:"exec"`
	FD   int    `json:"fd"`
}

// DialRequest connects to a TCP port on the guest's loopback.
type DialRequest struct {
	Port uint16 `json:"port"`
}

// UpdateRequest changes limits of a container.
type UpdateRequest struct {
	ID        string    `json:"id"`
	Resources Resources `json:"resources"`
}

// ShutdownRequest ends all containers and powers the machine off.
type ShutdownRequest struct {
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration `json:"grace,omitempty"`
}
