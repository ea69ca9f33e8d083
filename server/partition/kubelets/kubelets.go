package kubelets

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
	podstrategy "k8s.io/kubernetes/pkg/registry/core/pod"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"

	"github.com/a4s-io/a4s/internal/space"
)

// Qualify makes logs, exec, attach and port-forward of the core group ask kubelets by the names
// that these know. partition is empty for home.
func Qualify(partition string, v1 map[string]rest.Storage) error {
	if partition == "" {
		return nil
	}
	exec, ok := v1["pods/exec"].(*podrest.ExecREST)
	if !ok {
		return unexpected(v1, "pods/exec")
	}
	attach, ok := v1["pods/attach"].(*podrest.AttachREST)
	if !ok {
		return unexpected(v1, "pods/attach")
	}
	forward, ok := v1["pods/portforward"].(*podrest.PortForwardREST)
	if !ok {
		return unexpected(v1, "pods/portforward")
	}
	log, ok := v1["pods/log"].(*podrest.LogREST)
	if !ok {
		return unexpected(v1, "pods/log")
	}
	exec.Store = getter{exec.Store, partition}
	attach.Store = getter{attach.Store, partition}
	forward.Store = getter{forward.Store, partition}
	log.KubeletConn = connections{log.KubeletConn, partition}
	return nil
}

func unexpected(v1 map[string]rest.Storage, name string) error {
	return fmt.Errorf("the storage of %s is a %T", name, v1[name])
}

// getter gets pods as kubelets know them.
type getter struct {
	inner     podstrategy.ResourceGetter
	partition string
}

// Get implements podstrategy.ResourceGetter.
func (g getter) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := g.inner.Get(ctx, name, o)
	if pod, ok := obj.(*core.Pod); ok && err == nil {
		pod = pod.DeepCopy()
		pod.Namespace = space.QualifyNamespace(g.partition, pod.Namespace)
		return pod, nil
	}
	return obj, err
}

// connections lead to kubelets.
type connections struct {
	inner     client.ConnectionInfoGetter
	partition string
}

// GetConnectionInfo implements client.ConnectionInfoGetter.
func (c connections) GetConnectionInfo(ctx context.Context, node types.NodeName) (*client.ConnectionInfo, error) {
	info, err := c.inner.GetConnectionInfo(ctx, node)
	if err != nil {
		return nil, err
	}
	out := *info
	out.Transport = transport{info.Transport, c.partition}
	out.InsecureSkipTLSVerifyTransport = transport{info.InsecureSkipTLSVerifyTransport, c.partition}
	return &out, nil
}

// transport qualifies the namespace in the path of logs, which upstream takes from its own
// storage.
type transport struct {
	inner     http.RoundTripper
	partition string
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	const logs = "/containerLogs/"
	rest, ok := strings.CutPrefix(r.URL.Path, logs)
	if !ok {
		return t.inner.RoundTrip(r)
	}
	namespace, pod, _ := strings.Cut(rest, "/")
	r = r.Clone(r.Context())
	r.URL.Path = logs + space.QualifyNamespace(t.partition, namespace) + "/" + pod
	return t.inner.RoundTrip(r)
}
