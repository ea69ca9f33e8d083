package hostnames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
)

// Name is the name of the component.
const Name = "hostnames"

const (
	// maxMessage is twice what the kubelet takes.
	maxMessage = 32 << 20
	// maxReconnect is how soon a runtime that restarted is found again.
	maxReconnect = time.Second
)

// Options configure the endpoint.
type Options struct {
	// Socket is the path of the unix socket to serve on.
	Socket string
	// Runtime is the endpoint of the container runtime, "unix:///...".
	Runtime string
	// KubeletDir is the kubelet's root directory.
	KubeletDir string
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// Log may be nil.
	Log *logrus.Entry
}

// Endpoint is what the kubelet is to use for the runtime.
func (o Options) Endpoint() string { return "unix://" + o.Socket }

// New returns the component. It is ready when the socket is open, whether or
// not the runtime answers yet.
func New(o Options) component.Component {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return component.Component{Name: Name, Run: o.run}
}

func (o Options) run(ctx context.Context, ready func()) error {
	connect := backoff.DefaultConfig
	connect.BaseDelay, connect.MaxDelay = 100*time.Millisecond, maxReconnect
	runtime, err := grpc.NewClient(o.Runtime,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: connect, MinConnectTimeout: maxReconnect}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("client of the container runtime: %w", err)
	}
	defer runtime.Close()
	if err := os.MkdirAll(filepath.Dir(o.Socket), 0o755); err != nil {
		return fmt.Errorf("directory of the runtime's socket: %w", err)
	}
	if err := os.Remove(o.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket left behind: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", o.Socket)
	if err != nil {
		return fmt.Errorf("serving the container runtime: %w", err)
	}
	if err := os.Chmod(o.Socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("serving the container runtime: %w", err), listener.Close())
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return o.pass(stream, runtime) }))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ready()
	select {
	case <-ctx.Done():
		server.Stop()
		<-served // it was told to
		return nil
	case err := <-served:
		return fmt.Errorf("serving the container runtime: %w", err)
	}
}

// sandbox puts native names into a request for a new sandbox.
func (o Options) sandbox(request []byte) ([]byte, error) {
	var r runtimeapi.RunPodSandboxRequest
	if err := unmarshal(request, &r); err != nil {
		return nil, err
	}
	composite, native, ok := o.domains(r.GetConfig())
	if !ok || !strings.HasSuffix(r.Config.Hostname, composite) {
		return request, nil
	}
	r.Config.Hostname = strings.TrimSuffix(r.Config.Hostname, composite) + native
	return marshal(&r)
}

// container puts native names into the hosts file of a new container, which
// the kubelet has just written.
func (o Options) container(request []byte) error {
	var r runtimeapi.CreateContainerRequest
	if err := unmarshal(request, &r); err != nil {
		return err
	}
	composite, native, ok := o.domains(r.GetSandboxConfig())
	if !ok {
		return nil
	}
	file := filepath.Join(o.KubeletDir, "pods", r.SandboxConfig.Metadata.Uid, "etc-hosts")
	for _, m := range r.GetConfig().GetMounts() {
		if m.HostPath != file {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("hosts file of a pod: %w", err)
		}
		if projected := bytes.ReplaceAll(content, []byte(composite), []byte(native)); !bytes.Equal(projected, content) {
			// In place, as the kubelet does: other containers have it mounted.
			if err := os.WriteFile(file, projected, 0o644); err != nil {
				return fmt.Errorf("hosts file of a pod: %w", err)
			}
		}
	}
	return nil
}

// domains returns the end of the pod's qualified name, as the kubelet composes
// it and as it should be; false for pods of the system space.
func (o Options) domains(config *runtimeapi.PodSandboxConfig) (composite, native string, ok bool) {
	namespace := config.GetMetadata().GetNamespace()
	tenant, nativeNamespace := space.SplitNamespace(namespace)
	end := ".svc." + o.ClusterDomain
	return "." + namespace + end, "." + nativeNamespace + end, !space.IsSystem(tenant)
}
