package vm

import (
	"reflect"
	"runtime"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/qemu"
)

func TestProcessOfContainerAndImage(t *testing.T) {
	image := &ocispec.ImageConfig{
		Entrypoint: []string{"/entry"}, Cmd: []string{"default"}, Env: []string{"A=image", "B=image"},
		WorkingDir: "/image", User: "app",
	}
	for name, tc := range map[string]struct {
		config *runtimeapi.ContainerConfig
		args   []string
		cwd    string
	}{
		"image alone": {&runtimeapi.ContainerConfig{}, []string{"/entry", "default"}, "/image"},
		"arguments":   {&runtimeapi.ContainerConfig{Args: []string{"x"}}, []string{"/entry", "x"}, "/image"},
		"command": {&runtimeapi.ContainerConfig{Command: []string{"sh"}, WorkingDir: "/own"},
			[]string{"sh"}, "/own"},
		"command and argument": {&runtimeapi.ContainerConfig{Command: []string{"sh"}, Args: []string{"-c"}},
			[]string{"sh", "-c"}, "/image"},
	} {
		p, err := processOf(tc.config, image)
		if err != nil || !slices.Equal(p.Args, tc.args) || p.Cwd != tc.cwd || p.User.Name != "app" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	p, err := processOf(&runtimeapi.ContainerConfig{
		Envs: []*runtimeapi.KeyValue{{Key: "B", Value: []byte("own")}, {Key: "C", Value: []byte("x=y")}},
	}, image)
	if want := []string{"A=image", "B=own", "C=x=y"}; err != nil || !slices.Equal(p.Env, want) {
		t.Errorf("environment %q, %v, want %q", p.Env, err, want)
	}
	if _, err := processOf(&runtimeapi.ContainerConfig{},
		&ocispec.ImageConfig{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no command at all: %v", err)
	}
}

func TestUserOfContainer(t *testing.T) {
	id := func(n int64) *runtimeapi.Int64Value { return &runtimeapi.Int64Value{Value: n} }
	gid := uint32(5)
	for name, tc := range map[string]struct {
		sc   *runtimeapi.LinuxContainerSecurityContext
		want guest.User
		code codes.Code
	}{
		"image's": {nil, guest.User{Name: "app:grp"}, codes.OK},
		"id 0":    {&runtimeapi.LinuxContainerSecurityContext{RunAsUser: id(0)}, guest.User{Name: "0"}, codes.OK},
		"name, group": {&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "me", RunAsGroup: id(5)},
			guest.User{Name: "me", Group: &gid}, codes.OK},
		"groups": {&runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{7},
			SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict},
			guest.User{Name: "app:grp", Groups: []uint32{7}, Strict: true}, codes.OK},
		"group alone": {&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: id(5)}, guest.User{},
			codes.InvalidArgument},
	} {
		got, err := userOf(tc.sc, "app:grp")
		if status.Code(err) != tc.code || err == nil && !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestCapabilities(t *testing.T) {
	of := func(add, drop, ambient []string) *runtimeapi.LinuxContainerSecurityContext {
		return &runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{AddCapabilities: add,
			DropCapabilities: drop, AddAmbientCapabilities: ambient}}
	}
	set, ambient, err := capabilitiesOf(of([]string{"NET_ADMIN"}, []string{"CAP_CHOWN"}, []string{"net_raw"}))
	if err != nil || !slices.Contains(set, "CAP_NET_ADMIN") || slices.Contains(set, "CAP_CHOWN") ||
		!slices.Equal(ambient, []string{"CAP_NET_RAW"}) {
		t.Errorf("%v, %v, %v", set, ambient, err)
	}
	if set, _, err = capabilitiesOf(of([]string{"KILL"}, []string{"ALL"}, nil)); err != nil ||
		!slices.Equal(set, []string{"CAP_KILL"}) {
		t.Errorf("all but one dropped: %v, %v", set, err)
	}
	if set, _, err = capabilitiesOf(of(nil, []string{"all"}, nil)); err != nil || set == nil || len(set) != 0 {
		t.Errorf("all dropped: %#v, %v", set, err)
	}
	if set, _, err = capabilitiesOf(of([]string{"ALL"}, []string{"SYS_ADMIN"}, nil)); err != nil ||
		slices.Contains(set, "CAP_SYS_ADMIN") || !slices.Contains(set, "CAP_SYS_PTRACE") {
		t.Errorf("all but one: %v, %v", set, err)
	}
	// One container's exceptions are not those of the next one.
	if set, _, err = capabilitiesOf(of([]string{"SYS_ADMIN"}, nil, nil)); err != nil ||
		!slices.Contains(set, "CAP_SYS_ADMIN") {
		t.Errorf("one that another container does not have: %v, %v", set, err)
	}
	if _, _, err = capabilitiesOf(of([]string{"FLY"}, nil, nil)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("unknown capability: %v", err)
	}
}

func TestMountsOuterFirstAndWhatCannotBe(t *testing.T) {
	shown, mounts, err := mountsOf("c", &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{
		{ContainerPath: "/a/b", HostPath: "/h1", Readonly: true},
		{ContainerPath: "/a", HostPath: "/h2", Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
	}})
	if err != nil || len(shown) != 2 || len(mounts) != 2 {
		t.Fatalf("%v %v %v", shown, mounts, err)
	}
	if mounts[0].Destination != "/a" || mounts[1].Destination != "/a/b" || !mounts[1].Readonly ||
		mounts[0].Source != shown[0].Name || shown[0].Source != "/h2" || !shown[0].Follow || !shown[1].ReadOnly {
		t.Errorf("%+v %+v", shown, mounts)
	}
	for name, m := range map[string]*runtimeapi.Mount{
		"bidirectional": {ContainerPath: "/x", HostPath: "/x",
			Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
		"image":     {ContainerPath: "/x", Image: &runtimeapi.ImageSpec{Image: "i"}},
		"recursive": {ContainerPath: "/x", HostPath: "/x", RecursiveReadOnly: true},
	} {
		if _, _, err := mountsOf("c",
			&runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{m}}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSandboxesThatCannotBe(t *testing.T) {
	meta := &runtimeapi.PodSandboxMetadata{Name: "p"}
	with := func(ns *runtimeapi.NamespaceOption) *runtimeapi.PodSandboxConfig {
		return &runtimeapi.PodSandboxConfig{Metadata: meta, Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: ns},
		}}
	}
	if err := checkSandbox(with(nil)); err != nil {
		t.Error(err)
	}
	for _, ns := range []*runtimeapi.NamespaceOption{
		{Network: runtimeapi.NamespaceMode_NODE}, {Pid: runtimeapi.NamespaceMode_NODE},
		{Ipc: runtimeapi.NamespaceMode_NODE},
		{UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD}},
	} {
		if err := checkSandbox(with(ns)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", ns, err)
		}
	}
	if err := checkSandbox(nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no configuration: %v", err)
	}
}

func TestSizeOfMachine(t *testing.T) {
	most := runtime.NumCPU()
	memory := func(mb int64) *runtimeapi.LinuxContainerResources {
		return &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: mb << 20}
	}
	for name, tc := range map[string]struct {
		r, overhead *runtimeapi.LinuxContainerResources
		accelerator qemu.Accelerator
		want        size
	}{
		"nothing": {nil, nil, qemu.TCG, size{1, defaultMemoryMB + guestMemoryMB}},
		"best effort": {&runtimeapi.LinuxContainerResources{CpuShares: 2}, memory(192), qemu.TCG,
			size{1, defaultMemoryMB + guestMemoryMB}},
		"requests": {&runtimeapi.LinuxContainerResources{CpuShares: 1100}, nil, qemu.TCG,
			size{min(2, most), defaultMemoryMB + guestMemoryMB}},
		"limits": {&runtimeapi.LinuxContainerResources{CpuShares: 2, CpuQuota: 150000, CpuPeriod: 100000,
			MemoryLimitInBytes: 1<<30 + 1}, nil, qemu.TCG, size{min(2, most), 1025 + guestMemoryMB}},
		"tiny": {memory(1), nil, qemu.TCG, size{1, minMemoryMB}},
		"all the CPUs": {&runtimeapi.LinuxContainerResources{CpuQuota: 100 << 20, CpuPeriod: 1000}, nil, qemu.TCG,
			size{most, defaultMemoryMB + guestMemoryMB}},
		"QEMU fits": {memory(256), memory(192), qemu.TCG, size{1, 256 + 192 - qemuMemoryMB - 64}},
		"with KVM":  {memory(2048), memory(192), qemu.KVM, size{1, 2048 + guestMemoryMB}},
	} {
		if got := sizeOf(&runtimeapi.LinuxPodSandboxConfig{Resources: tc.r, Overhead: tc.overhead},
			tc.accelerator); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestMachineOutsideItsPod(t *testing.T) {
	memory := func(mb int64) *runtimeapi.LinuxContainerResources {
		return &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: mb << 20}
	}
	for name, tc := range map[string]struct {
		r, overhead *runtimeapi.LinuxContainerResources
		accelerator qemu.Accelerator
		want        bool
	}{
		"no limit":        {nil, nil, qemu.TCG, false},
		"no overhead":     {memory(1024), nil, qemu.KVM, true},
		"fits":            {memory(256), memory(192), qemu.TCG, false},
		"small":           {memory(32), memory(192), qemu.TCG, true},
		"small, with KVM": {memory(40), memory(192), qemu.KVM, false},
	} {
		linux := &runtimeapi.LinuxPodSandboxConfig{Resources: tc.r, Overhead: tc.overhead}
		if got := exceedsPod(linux, sizeOf(linux, tc.accelerator).MemoryMB, tc.accelerator); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	quota := &runtimeapi.LinuxContainerResources{CpuQuota: 20000, CpuPeriod: 100000}
	if q, p := cpuQuota(&runtimeapi.LinuxPodSandboxConfig{Resources: quota,
		Overhead: &runtimeapi.LinuxContainerResources{CpuQuota: 10000, CpuPeriod: 100000}}); q != 30000 ||
		p != 100000 {
		t.Errorf("quota %d of %d", q, p)
	}
	if q, _ := cpuQuota(&runtimeapi.LinuxPodSandboxConfig{Overhead: quota}); q != 0 {
		t.Errorf("without a limit: quota %d", q)
	}
}

func TestSignalNames(t *testing.T) {
	for name, want := range map[string]unix.Signal{
		"SIGTERM": unix.SIGTERM, "TERM": unix.SIGTERM, "15": 15, "SIGRTMIN": 34, "SIGRTMIN+3": 37, "SIGRTMINPLUS3": 37,
		"SIGRTMAXMINUS1": 63, "SIGRTMAX": 64,
	} {
		if got, err := parseSignal(name); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "0", "65", "-1", "SIGNOTHING", "SIGRTMIN+99"} {
		if got, err := parseSignal(name); err == nil {
			t.Errorf("%q is %v", name, got)
		}
	}
}
