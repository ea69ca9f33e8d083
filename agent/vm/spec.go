package vm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/cap"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/shares"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// defaultCapabilities are those of containers everywhere.
func defaultCapabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP",
		"CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// refused is the answer to what a virtual machine cannot give.
func refused(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "a pod that is a virtual machine "+format, args...)
}

// checkSandbox refuses what a virtual machine cannot give a pod.
func checkSandbox(config *runtimeapi.PodSandboxConfig) error {
	if config.GetMetadata().GetName() == "" {
		return status.Error(codes.InvalidArgument, "the sandbox has no name")
	}
	ns := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	switch {
	case ns.GetNetwork() == runtimeapi.NamespaceMode_NODE:
		return refused("cannot use the network of the node: hostNetwork must be false")
	case ns.GetPid() == runtimeapi.NamespaceMode_NODE:
		return refused("cannot see the processes of the node: hostPID must be false")
	case ns.GetIpc() == runtimeapi.NamespaceMode_NODE:
		return refused("cannot use the IPC of the node: hostIPC must be false")
	case ns.GetUsernsOptions() != nil && ns.GetUsernsOptions().GetMode() == runtimeapi.NamespaceMode_POD:
		return refused("has users of its own already: hostUsers must not be false")
	}
	return nil
}

// mountsOf returns the mounts of a container: what is to be shown in the pod's
// share, and where it is mounted in the guest.
func mountsOf(id string, config *runtimeapi.ContainerConfig) ([]shares.Mount, []guest.Mount, error) {
	var shown []shares.Mount
	var mounts []guest.Mount
	// A mount inside another one must come after it.
	wanted := slices.Clone(config.GetMounts())
	slices.SortStableFunc(wanted, func(a, b *runtimeapi.Mount) int {
		return strings.Count(strings.TrimRight(a.GetContainerPath(), "/"), "/") -
			strings.Count(strings.TrimRight(b.GetContainerPath(), "/"), "/")
	})
	for i, m := range wanted {
		switch {
		case m.GetImage().GetImage() != "":
			return nil, nil, refused("cannot mount an image as a volume (%s)", m.GetContainerPath())
		case m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:
			return nil, nil,
				refused("cannot propagate mounts to the node (%s): mountPropagation must not be Bidirectional",
					m.GetContainerPath())
		case len(m.GetUidMappings()) > 0 || len(m.GetGidMappings()) > 0:
			return nil, nil, refused("cannot map the owners of a mount (%s)", m.GetContainerPath())
		case m.GetRecursiveReadOnly() &&
			(!m.GetReadonly() || m.GetPropagation() != runtimeapi.MountPropagation_PROPAGATION_PRIVATE):
			return nil, nil, status.Errorf(codes.InvalidArgument,
				"mount %s: recursive read-only needs read-only and no propagation", m.GetContainerPath())
		}
		name := id + "/" + strconv.Itoa(i)
		shown = append(shown, shares.Mount{
			Name: name, Source: m.GetHostPath(), ReadOnly: m.GetReadonly(),
			Follow: m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
		})
		mounts = append(mounts, guest.Mount{
			Type: protocol.MountShared, Source: name, Destination: m.GetContainerPath(), Readonly: m.GetReadonly(),
		})
	}
	return shown, mounts, nil
}

// processOf returns what a container runs. image is what its image says.
func processOf(config *runtimeapi.ContainerConfig, image *ocispec.ImageConfig) (guest.Process, error) {
	p := guest.Process{Cwd: config.GetWorkingDir(), TTY: config.GetTty()}
	// As everywhere: a command replaces the image's entrypoint and its
	// arguments, arguments replace its arguments.
	command, args := config.GetCommand(), config.GetArgs()
	if len(command) == 0 {
		command = image.Entrypoint
		if len(args) == 0 {
			args = image.Cmd
		}
	}
	p.Args = slices.Concat(command, args)
	if len(p.Args) == 0 {
		return p, status.Error(codes.InvalidArgument,
			"no command specified: neither the container nor its image has one")
	}
	if p.Cwd == "" {
		p.Cwd = image.WorkingDir
	}
	p.Env = environment(config.GetEnvs(), image.Env)

	sc := config.GetLinux().GetSecurityContext()
	user, err := userOf(sc, image.User)
	if err != nil {
		return p, err
	}
	p.User = user
	p.NoNewPrivs = sc.GetNoNewPrivs()
	capabilities, ambient, err := capabilitiesOf(sc)
	if err != nil {
		return p, err
	}
	p.Capabilities, p.AmbientCapabilities = &capabilities, ambient
	if adj := config.GetLinux().GetResources().GetOomScoreAdj(); adj != 0 {
		n := int(adj)
		p.OOMScoreAdj = &n
	}
	return p, nil
}

// environment is that of the image, with what the container says on top.
func environment(own []*runtimeapi.KeyValue, image []string) []string {
	env := slices.Clone(image)
	for _, e := range own {
		entry := e.GetKey() + "=" + string(e.GetValue())
		i := slices.IndexFunc(env, func(s string) bool { return strings.HasPrefix(s, e.GetKey()+"=") })
		if i < 0 {
			env = append(env, entry)
			continue
		}
		env[i] = entry
	}
	return env
}

func userOf(sc *runtimeapi.LinuxContainerSecurityContext, image string) (guest.User, error) {
	u := guest.User{
		Name:   image,
		Strict: sc.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Strict,
	}
	switch {
	case sc.GetRunAsUser() != nil:
		u.Name = strconv.FormatInt(sc.GetRunAsUser().GetValue(), 10)
	case sc.GetRunAsUsername() != "":
		u.Name = sc.GetRunAsUsername()
	}
	if g := sc.GetRunAsGroup(); g != nil {
		if sc.GetRunAsUser() == nil && sc.GetRunAsUsername() == "" {
			return u, status.Error(codes.InvalidArgument, "user group is specified without user")
		}
		gid := uint32(g.GetValue())
		u.Group = &gid
	}
	for _, g := range sc.GetSupplementalGroups() {
		u.Groups = append(u.Groups, uint32(g))
	}
	return u, nil
}

// capabilitiesOf returns those of the bounding set and the ambient ones.
func capabilitiesOf(sc *runtimeapi.LinuxContainerSecurityContext) (all, ambient []string, err error) {
	if sc.GetPrivileged() {
		return slices.Clone(cap.Known()), nil, nil
	}
	set := defaultCapabilities()
	c := sc.GetCapabilities()
	add, addAll, err := capabilityNames(c.GetAddCapabilities())
	if err != nil {
		return nil, nil, err
	}
	drop, dropAll, err := capabilityNames(c.GetDropCapabilities())
	if err != nil {
		return nil, nil, err
	}
	if ambient, _, err = capabilityNames(c.GetAddAmbientCapabilities()); err != nil {
		return nil, nil, err
	}
	// "ALL" first, single names are exceptions from it.
	if addAll {
		set = slices.Clone(cap.Known()) // not the one that there is, which is changed below
	}
	if dropAll {
		set = nil
	}
	for _, name := range slices.Concat(add, ambient) {
		if !slices.Contains(set, name) {
			set = append(set, name)
		}
	}
	set = slices.DeleteFunc(set, func(name string) bool { return slices.Contains(drop, name) })
	ambient = slices.DeleteFunc(ambient, func(name string) bool { return slices.Contains(drop, name) })
	if set == nil {
		set = []string{}
	}
	return set, ambient, nil
}

func capabilityNames(given []string) (names []string, all bool, err error) {
	for _, name := range given {
		if strings.EqualFold(name, "ALL") {
			all = true
			continue
		}
		name = strings.ToUpper(name)
		if !strings.HasPrefix(name, "CAP_") {
			name = "CAP_" + name
		}
		if !slices.Contains(cap.Known(), name) {
			return nil, false, status.Errorf(codes.InvalidArgument, "unknown capability %q", name)
		}
		names = append(names, name)
	}
	return names, all, nil
}

func resourcesOf(r *runtimeapi.LinuxContainerResources) guest.Resources {
	return guest.Resources{
		MemoryLimit: r.GetMemoryLimitInBytes(),
		CPUQuota:    r.GetCpuQuota(), CPUPeriod: r.GetCpuPeriod(), CPUShares: r.GetCpuShares(),
	}
}

// withResources is the container's configuration with other limits. What a
// change does not name stays.
func withResources(config containerConfig, change *runtimeapi.LinuxContainerResources) containerConfig {
	next, ok := proto.Clone(config.P).(*runtimeapi.ContainerConfig)
	if !ok {
		return config
	}
	if next.Linux == nil {
		next.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	if next.Linux.Resources == nil {
		next.Linux.Resources = &runtimeapi.LinuxContainerResources{}
	}
	proto.Merge(next.Linux.Resources, change)
	return containerConfig{next}
}

// stopSignal is what asks the container to end: its own, or the image's.
func stopSignal(config *runtimeapi.ContainerConfig, image string) string {
	if s := config.GetStopSignal(); s != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return s.String()
	}
	if image != "" {
		return image
	}
	return "SIGTERM"
}

// serial is by which the guest finds a container's disk; a virtio disk has 20
// characters for it.
func serial(id string) string { return "c-" + id[:18] }

// guestContainer is the container as the guest's init makes it.
func guestContainer(
	id string, config *runtimeapi.ContainerConfig, image *ocispec.ImageConfig, mounts []guest.Mount,
) (guest.Container, error) {
	p, err := processOf(config, image)
	if err != nil {
		return guest.Container{}, err
	}
	if n := len(config.GetDevices()) + len(config.GetCDIDevices()); n > 0 {
		return guest.Container{}, refused("cannot use devices of the node (%d asked for)", n)
	}
	sc := config.GetLinux().GetSecurityContext()
	c := guest.Container{
		ID: id, Root: guest.Disk{Serial: serial(id)}, ReadonlyRoot: sc.GetReadonlyRootfs(), Mounts: mounts,
		Process: p, Stdin: config.GetStdin(), Privileged: sc.GetPrivileged(),
		MaskedPaths: sc.GetMaskedPaths(), ReadonlyPaths: sc.GetReadonlyPaths(),
		Resources: resourcesOf(config.GetLinux().GetResources()),
	}
	if c.Privileged {
		c.MaskedPaths, c.ReadonlyPaths = nil, nil
	}
	ns := sc.GetNamespaceOptions()
	if ns.GetPid() == runtimeapi.NamespaceMode_TARGET {
		return c, refused("cannot show a container the processes of one other container (%s): "+
			"use shareProcessNamespace", ns.GetTargetId())
	}
	return c, nil
}

// imageFor names an image in errors.
func imageFor(spec *runtimeapi.ImageSpec) string {
	if u := spec.GetUserSpecifiedImage(); u != "" && u != spec.GetImage() {
		return fmt.Sprintf("%s (%s)", u, spec.GetImage())
	}
	return spec.GetImage()
}
