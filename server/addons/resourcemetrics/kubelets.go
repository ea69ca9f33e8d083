package resourcemetrics

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/metrics-server/pkg/scraper/client"
	"sigs.k8s.io/metrics-server/pkg/scraper/client/resource"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// kubeletPort is that of kubelets that do not say theirs.
	kubeletPort = 10250
	// maxAnswer bounds the answer of a kubelet: about 200 bytes for each of
	// the four values of a container.
	maxAnswer = 16 << 20
)

// kubelets asks kubelets.
type kubelets struct {
	inner client.KubeletMetricsGetter
	// partition is that of this server, empty for home.
	partition string
	// runsOn reports whether a pod is on a node.
	runsOn func(namespace, name, node string) bool
}

func newKubelets(o Options, runsOn func(namespace, name, node string) bool) (*kubelets, error) {
	inner, err := resource.NewForConfig(&client.KubeletClientConfig{
		Client: rest.Config{
			TLSClientConfig: o.Kubelet,
			Timeout:         timeout,
			WrapTransport:   func(rt http.RoundTripper) http.RoundTripper { return bounded{rt} },
		},
		// As the API server reaches them for logs and exec.
		AddressTypePriority: []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP,
			corev1.NodeHostName},
		Scheme:            "https",
		DefaultPort:       kubeletPort,
		UseNodeStatusPort: true,
	})
	if err != nil {
		return nil, fmt.Errorf("making the client of kubelets: %w", err)
	}
	return &kubelets{inner: inner, partition: o.Partition, runsOn: runsOn}, nil
}

// GetMetrics implements client.KubeletMetricsGetter. What a node says of pods
// that it does not run is left out, and so are the pods of other partitions, whose system
// spaces have the same names.
func (k *kubelets) GetMetrics(ctx context.Context, node *corev1.Node) (*storage.MetricsBatch, error) {
	batch, err := k.inner.GetMetrics(ctx, node)
	if err != nil {
		return nil, err
	}
	own := map[apitypes.NamespacedName]storage.PodMetricsPoint{}
	for pod, point := range batch.Pods {
		namespace, ok := k.native(pod.Namespace)
		if ok && k.runsOn(namespace, pod.Name, node.Name) {
			own[apitypes.NamespacedName{Namespace: namespace, Name: pod.Name}] = point
		}
	}
	batch.Pods = own
	return batch, nil
}

// native is what a namespace of a node is called in this partition. It is false for those of
// other partitions.
func (k *kubelets) native(onNode string) (string, bool) {
	partition, composite := space.UnqualifyNamespace(onNode)
	tenant, _ := space.SplitNamespace(composite)
	return composite, partition == k.partition || partition == "" && !space.IsSystem(tenant)
}

// bounded is a transport for servers that are trusted less than this one: they
// cannot send it elsewhere, with its certificate, and not fill its memory.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		answer.Body.Close() //nolint:errcheck // nothing is read of it
		return nil, fmt.Errorf("the kubelet answers with a redirection (%s)", answer.Status)
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	return answer, nil
}
