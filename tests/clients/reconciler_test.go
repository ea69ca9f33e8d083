package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// watchedLabel is on what a manager is to handle. Its value keeps the
	// managers of one test from the objects of others in the same tenant.
	watchedLabel = "example.com/watched"
	// handledBy is the annotation with the name of the manager.
	handledBy        = "example.com/handled-by"
	handledCondition = appsv1.DeploymentConditionType("example.com/Handled")
)

// reconciler does to Deployments what controllers do: it reads them, and
// Secrets' metadata, from caches; it keeps a ConfigMap that the Deployment owns,
// writes an annotation and a condition, and records an event.
type reconciler struct {
	client.Client
	name, group string
	events      events.EventRecorder
	asked       names
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.asked.add(req.String())
	var d appsv1.Deployment
	if err := r.Get(ctx, req.NamespacedName, &d); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if d.Labels[watchedLabel] != r.group || d.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	secrets, err := r.secrets(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	state := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-state"}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, state, func() error {
		state.Data = map[string]string{"secrets": strings.Join(secrets, " ")}
		return controllerutil.SetControllerReference(&d, state, r.Scheme())
	}); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the state: %w", err)
	}
	return reconcile.Result{}, r.mark(ctx, &d)
}

// secrets is "namespace/name" of the labelled ones in all namespaces.
func (r *reconciler) secrets(ctx context.Context) ([]string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.List(ctx, &list, client.MatchingLabels{watchedLabel: r.group}); err != nil {
		return nil, fmt.Errorf("listing the metadata of Secrets: %w", err)
	}
	var out []string
	for _, s := range list.Items {
		out = append(out, s.Namespace+"/"+s.Name)
	}
	slices.Sort(out)
	return out, nil
}

func (r *reconciler) mark(ctx context.Context, d *appsv1.Deployment) error {
	if d.Annotations[handledBy] != r.name {
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, handledBy, r.name)
		if err := r.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the annotation: %w", err)
		}
		r.events.Eventf(d, nil, corev1.EventTypeNormal, "Handled", "Handle", "%s/%s handled by %s",
			d.Namespace, d.Name, r.name)
	}
	has := func(c appsv1.DeploymentCondition) bool { return c.Type == handledCondition }
	if slices.ContainsFunc(d.Status.Conditions, has) {
		return nil
	}
	before := d.DeepCopy()
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: handledCondition, Status: corev1.ConditionTrue, LastUpdateTime: metav1.Now(),
		LastTransitionTime: metav1.Now(), Reason: "Handled",
	})
	if err := r.Status().Patch(ctx, d, client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// names is a set that goroutines share.
type names struct {
	mu  sync.Mutex
	all map[string]bool
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[string]bool{}
	}
	n.all[name] = true
}

func (n *names) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for name := range n.all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// wire looks at what a manager is sent: the encoding, and every byte.
type wire struct {
	// json asks for JSON where a client prefers protobuf, as that of metadata
	// always does.
	json bool
	// canary is what no answer may hold.
	canary string

	// encodings has "resource media type" of all answers that hold objects,
	// leaked the addresses of those that hold the canary.
	encodings, leaked names
}

// connection is one of the transports of a manager.
type connection struct {
	*wire
	next http.RoundTripper
}

func (c *connection) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.json {
		req = req.Clone(req.Context())
		accept := slices.DeleteFunc(strings.Split(req.Header.Get("Accept"), ","), func(s string) bool {
			return strings.Contains(s, "protobuf")
		})
		req.Header.Set("Accept", strings.Join(accept, ","))
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resource := resourceOf(req.URL.Path); resource != "" {
		media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		c.encodings.add(resource + " " + media)
	}
	resp.Body = &scanner{ReadCloser: resp.Body, canary: []byte(c.canary),
		found: func() { c.leaked.add(req.Method + " " + req.URL.String()) }}
	return resp, nil
}

// resourceOf finds in a path those resources that the managers cache.
func resourceOf(path string) string {
	for segment := range strings.SplitSeq(path, "/") {
		if slices.Contains([]string{"deployments", "configmaps", "secrets", "leases"}, segment) {
			return segment
		}
	}
	return ""
}

// scanner looks for bytes in what is read through it.
type scanner struct {
	io.ReadCloser
	canary, tail []byte
	found        func()
}

func (s *scanner) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	window := append(s.tail, p[:n]...)
	if bytes.Contains(window, s.canary) {
		s.found()
	}
	s.tail = bytes.Clone(window[max(0, len(window)-len(s.canary)+1):])
	return n, err
}
