package containerd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/a4s-io/a4s/agent/host/child"
	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "containerd"

// stopGrace is how long it gets to end after SIGTERM before it is killed.
const stopGrace = 10 * time.Second

// New returns the component that runs containerd as a child process. It is
// ready when the CRI runtime reports itself ready. Pods survive its end.
func New(o Options) component.Component {
	o = o.withDefaults()
	return component.Component{
		Name:        Name,
		StopTimeout: o.process().StopTimeout(),
		Run:         o.run,
	}
}

func (o Options) run(ctx context.Context, ready func()) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := endLeftover(ctx, o.configFile(), o.Log); err != nil {
		return err
	}
	if err := o.writeConfig(); err != nil {
		return err
	}
	return o.process().Run(ctx, ready)
}

func (o Options) process() child.Process {
	return child.Process{
		Name:      Name,
		Path:      o.Executable,
		Args:      o.args(),
		Env:       childEnv(os.Environ(), filepath.Dir(o.ShimPath), filepath.Dir(o.RuncPath)),
		LogFile:   LogFile(o.DataDir),
		StopGrace: stopGrace,
		Serving:   func(ctx context.Context) error { return waitReady(ctx, Socket(o.StateDir), o.Log) },
		Log:       o.Log,
	}
}

// args is also how a leftover is recognised; see endLeftover.
func (o Options) args() []string { return childArgs(o.configFile()) }

func childArgs(configFile string) []string { return []string{"containerd", "--config", configFile} }

// childEnv is a4s' environment as containerd gets it. As with k3s, a variable
// CONTAINERD_X is passed as X, so that a proxy can be set for containerd only.
// binDirs go first in PATH. After a restart containerd looks there for the shim
// of every container it finds, whatever its configuration says: without it,
// it takes running pods for dead ones. The shim looks there for runc.
func childEnv(environ []string, binDirs ...string) []string {
	var env, own []string
	path := ""
	for _, entry := range child.Env(environ) {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PATH":
			path = value
		case name == "CONTAINERD_LOG_LEVEL": // in the configuration
		case strings.HasPrefix(name, "CONTAINERD_"):
			own = append(own, strings.TrimPrefix(entry, "CONTAINERD_"))
		default:
			env = append(env, entry)
		}
	}
	path = strings.Join(append(slices.Compact(binDirs), withSystemDirs(path)), ":")
	return append(append(env, "PATH="+path), own...)
}

// withSystemDirs adds the directories of the system's programs to a PATH. CNI plugins need
// iptables, which a login PATH may not reach.
func withSystemDirs(path string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if !strings.Contains(":"+path+":", ":"+dir+":") {
			path = strings.TrimPrefix(path+":"+dir, ":")
		}
	}
	return path
}
