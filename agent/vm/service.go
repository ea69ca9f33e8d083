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
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/records"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/rootsocket"
)

// maxMessage is what the kubelet takes.
const maxMessage = 16 << 20

// service is the CRI runtime service.
type service struct {
	runtimeapi.UnimplementedRuntimeServiceServer

	settings.Service
	log    *logrus.Entry
	store  *store
	events events

	// ctx ends with the service; machines go on.
	ctx  context.Context
	wait sync.WaitGroup // what runs until ctx ends

	images     runtimeapi.ImageServiceClient
	disks      *disks.Store
	network    *network.Manager
	choice     qemu.Choice
	choiceErr  error
	streaming  *streams
	statistics statistics
}

// Serve runs the runtime service until ctx ends.
func Serve(ctx context.Context, o settings.Service) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &service{Service: o.WithDefaults(), ctx: ctx}
	s.log = s.Log
	defer s.wait.Wait()
	defer cancel()

	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock() //nolint:errcheck // the lock ends with the process
	client, err := connect(s.Containerd)
	if err != nil {
		return err
	}
	defer client.Close()
	conn, ok := client.Conn().(grpc.ClientConnInterface)
	if !ok {
		return errors.New("containerd's client has no connection")
	}
	s.images = runtimeapi.NewImageServiceClient(conn)
	if err := s.open(client); err != nil {
		return err
	}
	if s.Initrd, err = settings.Assemble(s.Service); err != nil {
		return err
	}
	s.choice, s.choiceErr = s.accelerator(ctx)
	if s.choiceErr == nil {
		s.log.WithField("why", s.choice.Reason).Infof("virtual machines run with %s", s.choice.Accelerator)
	}
	if s.streaming, err = newStreams(s); err != nil {
		return err
	}
	defer s.streaming.stop()
	if err := s.recoverAll(); err != nil {
		return err
	}

	listener, err := rootsocket.Listen(s.ctx, s.Socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.WaitForHandlers(true), grpc.ChainUnaryInterceptor(s.logged))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, &imageService{containerd: s.images, removed: s.collectSoon})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.log.Infof("serving virtual machines on %s", s.Socket)
	select {
	case <-ctx.Done():
		server.Stop()
		<-served // it was told to
		return nil
	case err := <-served:
		return fmt.Errorf("serving the runtime service: %w", err)
	}
}

// lock keeps two services off the same pods.
func (s *service) lock() (unlock func() error, err error) {
	if err := os.MkdirAll(s.Root, 0o711); err != nil {
		return nil, fmt.Errorf("directory of the VM runtime: %w", err)
	}
	path := filepath.Join(s.Root, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the VM runtime: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(&problem.Precondition{What: "VM runtime", Err: fmt.Errorf("another one holds %s: %w", path, err), Fix: "stop it first, or use another --root"}, f.Close())
	}
	return f.Close, nil
}

// open opens what is on disk.
func (s *service) open(client *containerd.Client) error {
	for _, dir := range []string{s.containersDir(), s.podsDir()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("directory of the VM runtime: %w", err)
		}
	}
	sandboxes, err := records.Open[sandboxRecord](filepath.Join(s.Root, "records", "sandboxes"))
	if err != nil {
		return err
	}
	containers, err := records.Open[containerRecord](filepath.Join(s.Root, "records", "containers"))
	if err != nil {
		return err
	}
	s.store = newStore(sandboxes, containers)
	if s.disks, err = disks.New(disks.Options{
		Root: filepath.Join(s.Root, "images"), Client: client, Snapshotter: s.Snapshotter, Log: s.log,
	}); err != nil {
		return err
	}
	s.network = network.New(network.Options{
		Dir: filepath.Join(s.State, "network"), ConfDir: s.CNIConfDir, BinDirs: s.CNIBinDirs,
	})
	return nil
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

// logged logs calls that fail.
func (s *service) logged(ctx context.Context, r any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	started := time.Now()
	answer, err := handle(ctx, r)
	log := s.log.WithField("took", time.Since(started).Round(time.Millisecond).String())
	if err != nil {
		log.WithError(err).Infof("%s failed", filepath.Base(info.FullMethod))
	} else if time.Since(started) > time.Second {
		log.Infof("%s", filepath.Base(info.FullMethod))
	}
	return answer, err
}

// background runs f until it returns; the service ends after it.
func (s *service) background(f func()) {
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
		f()
	}()
}

// Directories. Sockets are below podsDir, so its names are short.

func (s *service) podsDir() string               { return filepath.Join(s.State, "pods") }
func (s *service) podDir(id string) string       { return filepath.Join(s.podsDir(), id) }
func (s *service) containersDir() string         { return filepath.Join(s.Root, "containers") }
func (s *service) containerDir(id string) string { return filepath.Join(s.containersDir(), id) }
func (s *service) rootDisk(id string) string     { return filepath.Join(s.containerDir(id), "root.qcow2") }
