package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/serverstream"
	"github.com/a4s-io/a4s/agent/host/child"
	recorded "github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// Name is the name of the component, and Command the name by which the child is called.
const (
	Name    = "ingress"
	Command = "a4s-ingress"
)

const (
	// stopGrace is how long the child has for requests in flight.
	stopGrace = Drain + 5*time.Second
	// settles is how long a child runs that is replaced at once when it ends, while clients wait. One that ended
	// sooner is replaced later each time, and until then nobody has the ports.
	settles = 10 * time.Second
	// offEvery is how often servers are asked that leave Ingresses to others.
	offEvery = time.Minute
	// minGap is the shortest time between two batches for the child, and gapFactor makes it longer where one takes
	// long.
	minGap    = 20 * time.Millisecond
	gapFactor = 4
	// lingers is how long the ports stay taken after the last host is gone: it may come back.
	lingers = 30 * time.Second
	// outOfMemory has the kernel end the child before the node, which clients can make large.
	outOfMemory = "500"
)

// Options configure the node's side.
type Options struct {
	// RunDir has the file that names the process of the child.
	RunDir string
	// HTTP and HTTPS are where requests are taken, ":80" and ":443".
	HTTP, HTTPS string
	// Debug raises the log level of the child.
	Debug bool
	// Output receives the log of the child.
	Output io.Writer
	Log    *logrus.Entry
}

// Node takes the requests.
type Node struct {
	Options
	told   *told
	counts counts
	ports  *ports
	// settles is as the constant, but in tests.
	settles time.Duration
}

// New returns what takes requests when something has told it where they go.
func New(o Options) *Node {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return &Node{Options: o, told: newTold(), ports: newPorts(), settles: settles}
}

// PIDFile names the process of the child, for a caller that must end it when its parent is gone.
func PIDFile(runDir string) string { return filepath.Join(runDir, "ingress.pid") }

// Follow returns what follows the servers of a partition, of which config is the node's credential. partition is
// empty for that of the node.
func (n *Node) Follow(config *rest.Config, partition string) component.Component {
	return component.Component{Name: "ingress-rules", Run: func(ctx context.Context, ready func()) error {
		ready()
		for {
			if err := n.follow(ctx, config, partition); err != nil {
				return err
			}
			if component.Sleep(ctx, offEvery) != nil {
				return nil
			}
		}
	}}
}

// follow follows the servers until ctx ends, or they leave Ingresses to others.
func (n *Node) follow(ctx context.Context, config *rest.Config, partition string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return serverstream.Follow(ctx, serverstream.Options{
		Config: config, Path: joinapi.PathIngress, Silence: 3 * joinapi.IngressAlive, Log: n.Log,
		Warning: "no server tells where requests for Ingresses go; they go where they went before",
	}, func() serverstream.Reader[joinapi.IngressLine] {
		return &reader{to: n.told, partition: partition}
	}, func(err error) {
		var status *serverstream.StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			n.Forget(partition)
			cancel()
		}
	})
}

// Forget forgets what a partition told.
func (n *Node) Forget(partition string) { n.told.set(partition, nil) }

// Component runs the child while there are hosts.
func (n *Node) Component() component.Component {
	return component.Component{Name: Name, StopTimeout: child.Process{StopGrace: stopGrace}.StopTimeout(),
		Run: func(ctx context.Context, ready func()) error {
			ready()
			for {
				if !n.await(ctx) {
					return nil
				}
				if err := n.serve(ctx); err != nil || ctx.Err() != nil {
					return err
				}
			}
		}}
}

// await returns when there is a host, or false when ctx ends.
func (n *Node) await(ctx context.Context) bool {
	for {
		now, changed := n.told.current()
		if now.hosts() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// serve takes requests until there was no host for a while.
func (n *Node) serve(ctx context.Context) error {
	listeners, err := n.listen(ctx)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	for {
		began := time.Now()
		err := n.serveBy(ctx, listeners)
		if err == nil || ctx.Err() != nil || time.Since(began) < n.settles {
			return err
		}
		n.Log.WithError(err).Warn("the proxy of Ingresses is started again; clients wait for it")
	}
}

// serveBy has one child take requests until there was no host for a while, or it ends.
func (n *Node) serveBy(stopped context.Context, listeners []*os.File) error {
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the proxy of Ingresses: %w", err)
	}
	defer out.Close() //nolint:errcheck // what matters was written
	answers, answer, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{in})
		return fmt.Errorf("starting the proxy of Ingresses: %w", err)
	}
	defer closeAll([]*os.File{answers, answer})
	ctx, cancel := context.WithCancel(stopped)
	defer cancel()
	refuse := func() bool { return true }
	defer func() { refuse() }()
	args := []string{Command}
	if n.Debug {
		args = append(args, debugArgument)
	}
	process := child.Process{
		Name: "the proxy of Ingresses", Path: "/proc/self/exe", Args: args, Env: child.Env(os.Environ()),
		Input: in, Output: n.Output, Files: append(slices.Clone(listeners), answer), StopGrace: stopGrace, Log: n.Log,
		Started: func(pid int) error {
			closeAll([]*os.File{answer}) // so that the end of the child is an end
			// While the last requests end, nobody takes new ones: clients must not wait for it.
			refuse = context.AfterFunc(stopped, func() { closeAll(listeners) })
			go n.feed(ctx, out, cancel)
			score := os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte(outOfMemory), 0)
			return errors.Join(score, recorded.Record(PIDFile(n.RunDir), pid))
		},
		Serving: func(ctx context.Context) error { return n.waitServing(ctx, answers) },
	}
	return process.Run(ctx, func() { n.Log.Infof("Requests for Ingresses are taken at %s and %s", n.HTTP, n.HTTPS) })
}

// waitServing returns when the child says that it serves, or with an error when it or ctx ends.
func (n *Node) waitServing(ctx context.Context, answers *os.File) error {
	said := make(chan error, 1)
	go n.counts.listenTo(answers, said)
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen takes the ports, and has it reported whether it could.
func (n *Node) listen(ctx context.Context) (files []*os.File, err error) {
	defer func() { n.ports.set(err) }()
	var config net.ListenConfig
	for _, address := range []string{n.HTTP, n.HTTPS} {
		l, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			var file *os.File
			if tcp, ok := l.(*net.TCPListener); ok {
				file, err = tcp.File()
			}
			l.Close() //nolint:errcheck // the file has a socket of its own
			files = append(files, file)
		}
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("this node takes no requests for Ingresses: %w; end what has the port, or keep "+
				"the node out of it with the label node.kubernetes.io/exclude-from-external-load-balancers", err)
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close() //nolint:errcheck // it may be closed
		}
	}
}

// feed tells the child what holds, and every change, until ctx ends. It ends the child when there was no host
// for a while.
func (n *Node) feed(ctx context.Context, out io.Writer, end func()) {
	to := json.NewEncoder(out)
	var was lines
	var idle <-chan time.Time
	for {
		began := time.Now()
		now, changed := n.told.current()
		if now.hosts() {
			idle = nil
		} else if idle == nil { // what is told meanwhile makes it no longer
			idle = time.After(lingers)
		}
		for _, line := range append(now.since(was), joinapi.IngressLine{Complete: true}) {
			if err := to.Encode(line); err != nil {
				return // the child ends, and so does its Run
			}
		}
		was = now
		// Everything is looked at each time: what changes without a pause must not take a processor.
		if component.Sleep(ctx, max(minGap, gapFactor*time.Since(began))) != nil {
			return
		}
		select {
		case <-changed:
		case <-idle:
			if now, _ := n.told.current(); now.hosts() {
				continue // it came back just now
			}
			end()
			return
		case <-ctx.Done():
			return
		}
	}
}
