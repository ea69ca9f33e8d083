package containerd

import (
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/runtime/registries"
)

// DefaultStateDir holds what containerd may lose at a reboot. It is short
// because the sockets of shims are below it and a socket path has 108 bytes.
const DefaultStateDir = "/run/a4s/containerd"

// Options say how to run containerd.
type Options struct {
	// DataDir is a4s' data directory.
	DataDir string
	// StateDir is containerd's volatile state; empty means DefaultStateDir.
	StateDir string
	// Executable is the program to start as "containerd"; empty means this
	// process' own binary, even when it was replaced on disk.
	Executable string

	// ShimPath, RuncPath and CNIBinDir are absolute paths of the payload.
	ShimPath  string
	RuncPath  string
	CNIBinDir string
	// CNIConfDir is where the network writes its CNI configuration; empty
	// means CNIConfDir(DataDir).
	CNIConfDir string
	// PauseImage is the sandbox image; it is never garbage collected.
	PauseImage string
	// Snapshotter is the snapshotter; empty means overlayfs.
	Snapshotter string
	// DefaultRuntime runs pods without a RuntimeClass; empty means runc, the one of a4s.
	DefaultRuntime string
	// Runtimes are those that pods can have besides, by RuntimeClasses; see Found.
	Runtimes []Runtime
	// Registries are the private registries; nil means none.
	Registries *registries.Followed
	// Host is what the machine allows.
	Host host.Info
	// Debug raises containerd's log level.
	Debug bool
	// Log receives what the supervision has to say; nil means the standard
	// logger. containerd's own log goes to LogFile(DataDir).
	Log *logrus.Entry
}

// CNIConfDir returns where containerd looks for the CNI configuration.
func CNIConfDir(dataDir string) string {
	return filepath.Join(dataDir, "agent", "etc", "cni", "net.d")
}

// Socket returns the socket that a containerd with this state directory
// serves CRI and its own API on.
func Socket(stateDir string) string { return filepath.Join(stateDir, "containerd.sock") }

// LogFile returns where containerd's log goes.
func LogFile(dataDir string) string {
	return filepath.Join(dataDir, "agent", "containerd", "containerd.log")
}

func (o Options) withDefaults() Options {
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir
	}
	if o.Executable == "" {
		o.Executable = "/proc/self/exe"
	}
	if o.CNIConfDir == "" {
		o.CNIConfDir = CNIConfDir(o.DataDir)
	}
	if o.Snapshotter == "" {
		o.Snapshotter = "overlayfs"
	}
	if o.DefaultRuntime == "" {
		o.DefaultRuntime = runc
	}
	if o.Registries == nil {
		o.Registries = registries.Fixed(&registries.Config{})
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return o
}

func (o Options) rootDir() string      { return filepath.Join(o.DataDir, "agent", "containerd") }
func (o Options) etcDir() string       { return filepath.Join(o.DataDir, "agent", "etc", "containerd") }
func (o Options) configFile() string   { return filepath.Join(o.etcDir(), "config.toml") }
func (o Options) templateFile() string { return o.configFile() + ".tmpl" }
func (o Options) certsDir() string     { return filepath.Join(o.etcDir(), "certs.d") }

// logLevel is containerd's name of the log level.
func (o Options) logLevel() string {
	if level := os.Getenv("CONTAINERD_LOG_LEVEL"); level != "" {
		return level
	}
	if o.Debug {
		return logrus.DebugLevel.String()
	}
	return logrus.InfoLevel.String()
}
