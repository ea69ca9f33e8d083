package vm

import (
	"math"
	"runtime"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sizes of machines. docs/vm.md tells them.
const (
	mebibyte = 1 << 20
	// defaultMemoryMB is the memory for containers if the pod has no limit.
	defaultMemoryMB = 512
	// guestMemoryMB is what kernel and init of the guest need themselves.
	guestMemoryMB = 96
	// minMemoryMB is the least that a machine gets, however low the limit.
	minMemoryMB = 160
	// sharesPerCPU is how the kubelet writes a request for one CPU.
	sharesPerCPU = 1024
)

// size is that of a machine.
type size struct {
	CPUs     int `json:"cpus"`
	MemoryMB int `json:"memoryMB"`
}

// sizeOf returns the size of a pod's machine: what its limits say, or its
// requests, or the defaults, and the guest's own needs on top.
func sizeOf(linux *runtimeapi.LinuxPodSandboxConfig) size {
	r := linux.GetResources()
	cpus := 1.0
	switch {
	case r.GetCpuQuota() > 0 && r.GetCpuPeriod() > 0:
		cpus = float64(r.GetCpuQuota()) / float64(r.GetCpuPeriod())
	case r.GetCpuShares() > 0:
		cpus = float64(r.GetCpuShares()) / sharesPerCPU
	}
	memory := int64(defaultMemoryMB)
	if limit := r.GetMemoryLimitInBytes(); limit > 0 {
		memory = (limit + mebibyte - 1) / mebibyte
	}
	return size{
		// Half a CPU is a limit of the pod's control group, not of the guest.
		CPUs:     min(max(1, int(math.Ceil(cpus))), runtime.NumCPU()),
		MemoryMB: max(int(memory)+guestMemoryMB, minMemoryMB),
	}
}
