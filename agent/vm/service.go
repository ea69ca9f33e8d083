package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/disks"
	"github.com/a4s-io/a4s/agent/vm/network"
	"github.com/a4s-io/a4s/agent/vm/records"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/rootsocket"
)

// maxMessage is what the kubelet takes.
const maxMessage = 16 << 20

// service is the CRI runtime service: each of its parts answers some of the calls.
type service struct {
	unanswered
	*sandboxes
	*containers
	*lists
	*statistics
	*condition
	*execution
	*events
}

// unanswered are the calls that no part answers.
type unanswered struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

// Serve runs the runtime service until ctx ends.
func Serve(ctx context.Context, o settings.Service) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o = o.WithDefaults()
	t := &tasks{ctx: ctx}
	defer t.wait.Wait()
	defer cancel()

	unlock, err := lock(o.Root)
	if err != nil {
		return err
	}
	defer unlock() //nolint:errcheck // the lock ends with the process
	client, err := connect(o.Containerd)
	if err != nil {
		return err
	}
	defer client.Close()
	s, r, err := newService(t, o, client)
	if err != nil {
		return err
	}
	if s.streaming, err = newStreams(s.execution); err != nil {
		return err
	}
	defer s.streaming.stop()
	if err := r.all(); err != nil {
		return err
	}

	listener, err := rootsocket.Listen(ctx, o.Socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.WaitForHandlers(true), grpc.ChainUnaryInterceptor(logged(o.Log)))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server,
		&imageService{containerd: s.condition.images, removed: r.collectSoon})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	o.Log.Infof("serving virtual machines on %s", o.Socket)
	select {
	case <-ctx.Done():
		server.Stop()
		<-served // it was told to
		return nil
	case err := <-served:
		return fmt.Errorf("serving the runtime service: %w", err)
	}
}

// newService opens what is on disk, and makes the parts of the service and what
// finds again what runs.
func newService(t *tasks, o settings.Service, client *containerd.Client) (*service, *recovery, error) {
	conn, ok := client.Conn().(grpc.ClientConnInterface)
	if !ok {
		return nil, nil, errors.New("containerd's client has no connection")
	}
	images := runtimeapi.NewImageServiceClient(conn)
	at := layout{root: o.Root, state: o.State}
	store, err := openStore(at)
	if err != nil {
		return nil, nil, err
	}
	base, err := disks.New(disks.Options{
		Root: filepath.Join(o.Root, "images"), Client: client, Snapshotter: o.Snapshotter, Log: o.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	pods := network.New(network.Options{
		Dir: filepath.Join(o.State, "network"), ConfDir: o.CNIConfDir, BinDirs: o.CNIBinDirs,
	})
	if o.Initrd, err = settings.Assemble(o); err != nil {
		return nil, nil, err
	}
	m := &machines{layout: at, tasks: t, settings: o, log: o.Log, network: pods}
	m.choice, m.choiceErr = accelerator(t.ctx, o)
	if m.choiceErr == nil {
		o.Log.WithField("why", m.choice.Reason).Infof("virtual machines run with %s", m.choice.Accelerator)
	}
	e := &events{tasks: t, log: o.Log, store: store}
	ends := &reaper{layout: at, tasks: t, log: o.Log, store: store, events: e}
	w := &watcher{layout: at, tasks: t, log: o.Log, store: store, events: e, reaper: ends}
	disk := &diskMachines{layout: at, log: o.Log, store: store, network: pods, machines: m, watcher: w, reaper: ends}
	stats := &statistics{layout: at, log: o.Log, store: store}
	s := &sandboxes{
		layout: at, log: o.Log, store: store, events: e, network: pods,
		machines: m, watcher: w, reaper: ends, forget: stats.rates.forget,
	}
	s.containers = &containers{
		layout: at, log: o.Log, store: store, events: e, images: images, disks: base,
		sandboxes: s, disk: disk, watcher: w, reaper: ends,
	}
	return &service{
			sandboxes: s, containers: s.containers, lists: &lists{store: store}, statistics: stats,
			condition: &condition{machines: m, images: images, network: pods},
			execution: &execution{tasks: t, log: o.Log, store: store}, events: e,
		}, &recovery{
			layout: at, tasks: t, log: o.Log, store: store, network: pods, disks: base,
			machines: m, watcher: w, reaper: ends, disk: disk,
		}, nil
}

// lock keeps two services off the same pods.
func lock(root string) (unlock func() error, err error) {
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, fmt.Errorf("directory of the VM runtime: %w", err)
	}
	path := filepath.Join(root, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the VM runtime: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(&problem.Precondition{
			What: "VM runtime", Err: fmt.Errorf("another one holds %s: %w", path, err),
			Fix: "stop it first, or use another --root",
		}, f.Close())
	}
	return f.Close, nil
}

// openStore opens the records of pods and containers, and makes the directories of
// the runtime.
func openStore(at layout) (*store, error) {
	for _, dir := range []string{at.containersDir(), at.podsDir()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("directory of the VM runtime: %w", err)
		}
	}
	sandboxes, err := records.Open[sandboxRecord](filepath.Join(at.root, "records", "sandboxes"))
	if err != nil {
		return nil, err
	}
	containers, err := records.Open[containerRecord](filepath.Join(at.root, "records", "containers"))
	if err != nil {
		return nil, err
	}
	return newStore(sandboxes, containers), nil
}

// connect returns a client of containerd, which need not run yet.
func connect(socket string) (*containerd.Client, error) {
	client, err := containerd.New(socket,
		containerd.WithDefaultNamespace(disks.Namespace),
		containerd.WithTimeout(time.Second))
	if err != nil {
		return nil, fmt.Errorf("client of containerd: %w", err)
	}
	return client, nil
}

// logged logs calls that fail, and those that take long.
func logged(log *logrus.Entry) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, r any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		started := time.Now()
		answer, err := handle(ctx, r)
		took, name := time.Since(started), filepath.Base(info.FullMethod)
		log := log.WithField("took", took.Round(time.Millisecond).String())
		if err != nil {
			log.WithError(err).Infof("%s failed", name)
		} else if took > time.Second {
			log.Infof("%s", name)
		}
		return answer, err
	}
}

// tasks are what runs until the service ends.
type tasks struct {
	// ctx ends with the service; machines go on.
	ctx  context.Context
	wait sync.WaitGroup
}

// background runs f until it returns; the service ends after it.
func (t *tasks) background(f func()) { t.wait.Go(f) }

// layout is where files are: root is what survives a reboot, state what does not.
// Sockets are below podsDir, so its names are short.
type layout struct{ root, state string }

func (l layout) podsDir() string               { return filepath.Join(l.state, "pods") }
func (l layout) podDir(id string) string       { return filepath.Join(l.podsDir(), id) }
func (l layout) containersDir() string         { return filepath.Join(l.root, "containers") }
func (l layout) containerDir(id string) string { return filepath.Join(l.containersDir(), id) }
func (l layout) rootDisk(id string) string     { return filepath.Join(l.containerDir(id), "root.qcow2") }
