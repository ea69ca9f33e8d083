package protocol

import "time"

// Stats of the machine and of its containers.
type Stats struct {
	At         time.Time        `json:"at"`
	CPU        CPUStats         `json:"cpu"`
	Memory     MemoryStats      `json:"memory"`
	Pids       uint64           `json:"pids"`
	Networks   []NetworkStats   `json:"networks,omitempty"`
	Containers []ContainerStats `json:"containers,omitempty"`
}

// ContainerStats are those of one container.
type ContainerStats struct {
	ID     string      `json:"id"`
	CPU    CPUStats    `json:"cpu"`
	Memory MemoryStats `json:"memory"`
	Pids   uint64      `json:"pids"`
	// Root is the container's root file system.
	Root FSStats `json:"root"`
}

// CPUStats is time used since the start.
type CPUStats struct {
	Usage  time.Duration `json:"usage"`
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
}

// MemoryStats in bytes.
type MemoryStats struct {
	Usage uint64 `json:"usage"`
	// WorkingSet is the usage without inactive file pages.
	WorkingSet uint64 `json:"workingSet"`
	RSS        uint64 `json:"rss"`
	// Available is zero without a limit.
	Available       uint64 `json:"available"`
	PageFaults      uint64 `json:"pageFaults"`
	MajorPageFaults uint64 `json:"majorPageFaults"`
	// Limit is zero without one. Of the machine it is its memory.
	Limit uint64 `json:"limit"`
}

// FSStats is the use of a file system.
type FSStats struct {
	UsedBytes  uint64 `json:"usedBytes"`
	TotalBytes uint64 `json:"totalBytes"`
	UsedInodes uint64 `json:"usedInodes"`
}

// NetworkStats of an interface.
type NetworkStats struct {
	Name      string `json:"name"`
	RxBytes   uint64 `json:"rxBytes"`
	RxPackets uint64 `json:"rxPackets"`
	RxErrors  uint64 `json:"rxErrors"`
	RxDropped uint64 `json:"rxDropped"`
	TxBytes   uint64 `json:"txBytes"`
	TxPackets uint64 `json:"txPackets"`
	TxErrors  uint64 `json:"txErrors"`
	TxDropped uint64 `json:"txDropped"`
}
