package vm

import (
	"math"
	"runtime"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/qemu"
)

// Sizes of machines. docs/run/vm.md tells them.
const (
	mebibyte = 1 << 20
	// defaultMemoryMB is the memory for containers if the pod has no limit.
	defaultMemoryMB = 512
	// guestMemoryMB is what kernel and init of the guest need themselves.
	guestMemoryMB = 96
	// minMemoryMB is the least that a machine gets, however low the limit.
	minMemoryMB = 160
	// qemuMemoryMB is what QEMU and virtiofsd take besides the guest's memory.
	qemuMemoryMB = 72
	// sharesPerCPU is how the kubelet writes a request for one CPU.
	sharesPerCPU = 1024
)

// size is that of a machine.
type size struct {
	CPUs     int `json:"cpus"`
	MemoryMB int `json:"memoryMB"`
}

// sizeOf returns the size of a pod's machine: what its limits say, or its
// requests, or the defaults, and the guest's own needs on top. What QEMU takes
// as well comes out of the pod's overhead, where the pod has a memory limit:
// the kernel would end the machine for it.
func sizeOf(linux *runtimeapi.LinuxPodSandboxConfig, accelerator qemu.Accelerator) size {
	r := linux.GetResources()
	cpus := 1.0
	switch {
	case r.GetCpuQuota() > 0 && r.GetCpuPeriod() > 0:
		cpus = float64(r.GetCpuQuota()) / float64(r.GetCpuPeriod())
	case r.GetCpuShares() > 0:
		cpus = float64(r.GetCpuShares()) / sharesPerCPU
	}
	memory := defaultMemoryMB + guestMemoryMB
	if limit := megabytes(r.GetMemoryLimitInBytes()); limit > 0 {
		memory = limit + guestMemoryMB
		if overhead := megabytes(linux.GetOverhead().GetMemoryLimitInBytes()); overhead > 0 {
			memory = min(memory, limit+overhead-besides(memory, accelerator))
		}
	}
	return size{
		// Half a CPU is a limit of the pod's control group, not of the guest.
		CPUs:     min(max(1, int(math.Ceil(cpus))), runtime.NumCPU()),
		MemoryMB: max(memory, minMemoryMB),
	}
}

func megabytes(bytes int64) int { return int((bytes + mebibyte - 1) / mebibyte) }

// exceedsPod says that the machine of a pod would not fit into the pod's control
// group, whose memory limit does not reckon with it: that of a pod that names
// its type by annotation alone and so has no overhead, or that of a small one.
func exceedsPod(linux *runtimeapi.LinuxPodSandboxConfig, memoryMB int, accelerator qemu.Accelerator) bool {
	limit, overhead := megabytes(linux.GetResources().GetMemoryLimitInBytes()),
		megabytes(linux.GetOverhead().GetMemoryLimitInBytes())
	return limit > 0 && (overhead <= 0 || limit+overhead < memoryMB+besides(memoryMB, accelerator))
}

// besides is what QEMU and virtiofsd take beside the memory of the machine, in MB.
func besides(memoryMB int, accelerator qemu.Accelerator) int {
	if accelerator == qemu.KVM {
		return qemuMemoryMB
	}
	return qemuMemoryMB + qemu.TranslationCache(memoryMB)
}

// cpuQuota is what a pod's processes may use of the CPUs in each period, as its
// control group has it; 0 is as much as there is.
func cpuQuota(linux *runtimeapi.LinuxPodSandboxConfig) (quota, period int64) {
	r, overhead := linux.GetResources(), linux.GetOverhead()
	if r.GetCpuQuota() <= 0 || r.GetCpuPeriod() <= 0 {
		return 0, 0
	}
	quota, period = r.GetCpuQuota(), r.GetCpuPeriod()
	if overhead.GetCpuQuota() > 0 && overhead.GetCpuPeriod() == period {
		quota += overhead.GetCpuQuota()
	}
	return quota, period
}
