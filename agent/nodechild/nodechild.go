package nodechild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/host/child"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/problem"
)

// Name is the component's name.
const Name = "node"

const (
	// stopGrace is how long the node has to stop its components in order.
	stopGrace = 45 * time.Second
	// readyInterval is how often a node that starts is asked whether it is ready.
	readyInterval = 50 * time.Millisecond
	// stateTimeout bounds how long the state of the node is waited for.
	stateTimeout = 2 * time.Second
)

// Options say how to run the node of a server.
type Options struct {
	Setup Setup
	// Lock is the server's.
	Lock *instance.Lock
	// Output receives the log of the node.
	Output io.Writer
	// Started is called whenever the process was started.
	Started func()
	Log     *logrus.Entry
}

// Node is the node of this server.
type Node struct {
	o      Options
	server chan Server
	first  chan error // how a start ended that came to nothing
}

// New returns a node that was not started.
func New(o Options) *Node {
	return &Node{o: o, server: make(chan Server, 1), first: make(chan error, 1)}
}

// Join lets the node join the server. It may be called once.
func (n *Node) Join(s Server) { n.server <- s }

// Component runs the node, and again whenever it ends. It is ready when the node
// is.
func (n *Node) Component() component.Component {
	return component.Component{Name: Name, StopTimeout: child.Process{StopGrace: stopGrace}.StopTimeout(), Run: n.run}
}

// Wait returns when the node was ready once, or with the error of a start that the
// node itself gave up.
func (n *Node) Wait(ctx context.Context, group *component.Group) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-n.first:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err := group.Wait(ctx, Name)
	if failed := (*Failure)(nil); errors.As(err, &failed) {
		return failed
	}
	return err
}

// Report asks the node how it is.
func (n *Node) Report(ctx context.Context) (*health.Report, error) {
	return health.Ask(ctx, Socket(), health.Path)
}

// States are the components of the node, none while it does not run.
func (n *Node) States() []component.State {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	report, err := health.Ask(ctx, Socket(), health.StatePath)
	if err != nil {
		return nil
	}
	// Its monitor is a part of the server's.
	return slices.DeleteFunc(report.Components, func(s component.State) bool { return s.Name == health.Name })
}

// Failure is what a node said that could not start.
type Failure struct {
	text string
	code int
}

// Error implements error.
func (f *Failure) Error() string { return f.text }

// Unwrap keeps the exit code of the node.
func (f *Failure) Unwrap() error {
	if f.code == problem.ExitPrecondition {
		return &problem.Precondition{What: Name, Fix: f.text}
	}
	return nil
}

func (n *Node) run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	defer out.Close() //nolint:errcheck // what matters was written
	wasReady := false
	said := &words{out: n.o.Output}
	process := child.Process{
		Name: "the node", Path: "/proc/self/exe", Args: []string{Command}, Env: child.Env(os.Environ()),
		Input: in, Output: said, Files: []*os.File{n.o.Lock.File()},
		// What it starts is as after a crash; nothing else of it may be left.
		DeathSignal: syscall.SIGKILL,
		StopGrace:   stopGrace,
		Started: func(int) error {
			go n.tell(ctx, out)
			n.o.Started()
			return nil
		},
		Serving: waitReady,
		Log:     n.o.Log,
	}
	err = process.Run(ctx, func() { wasReady = true; ready() })
	return n.ended(err, said, wasReady)
}

// ended returns why a run ended. What the node itself gave up before it was ever
// ready ends the start of the server, too.
func (n *Node) ended(err error, said *words, wasReady bool) error {
	last := said.last()
	if err == nil || last == "" {
		return err
	}
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) && said.byItself() && !wasReady {
		select {
		case n.first <- &Failure{text: last, code: exit.ExitCode()}:
		default: // the start is over
		}
	}
	return fmt.Errorf("%w: %s", err, last)
}

// tell tells the node what it has to know. Who starts again is told the same.
func (n *Node) tell(ctx context.Context, out *os.File) {
	server := make(chan Server, 1)
	go func() {
		select {
		case s := <-n.server:
			n.server <- s // for the next one
			server <- s
		case <-ctx.Done():
		}
	}()
	if err := send(out, n.o.Setup, server, ctx.Done()); err != nil && ctx.Err() == nil {
		n.o.Log.WithError(err).Debug("the node does not listen")
	}
}

// waitReady returns when the node says that it is ready, or with an error when ctx
// ends.
func waitReady(ctx context.Context) error {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		if report, err := health.Ask(ctx, Socket(), health.StatePath); err == nil && report.Ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
