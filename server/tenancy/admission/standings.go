package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/tenantapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// breakers counts without the names of tenants: the event in the space says
// which one.
var breakers = func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "a4s_admission_breaker_changes_total",
		Help: "Times that controllers stopped (open) and began again (closed) " +
			"to ask the admission webhooks of a tenant.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"to"})
	legacyregistry.MustRegister(c)
	return c
}()

// standings are those of all tenants that controllers asked about.
type standings struct {
	mu sync.Mutex
	of map[string]*standing
}

// standing is that of a tenant.
func (a *Admission) standing(tenant string) *standing {
	a.standings.mu.Lock()
	defer a.standings.mu.Unlock()
	s := a.standings.of[tenant]
	if s == nil {
		s = &standing{changed: func(open bool) { a.breakerChanged(tenant, open) }}
		if a.standings.of == nil {
			a.standings.of = map[string]*standing{}
		}
		a.standings.of[tenant] = s
	}
	return s
}

// Forget drops what is known about a tenant that is gone.
func (a *Admission) Forget(tenant string) {
	a.standings.mu.Lock()
	defer a.standings.mu.Unlock()
	delete(a.standings.of, tenant)
}

// breakerChanged says so in metrics, in the log and in the space of the tenant.
func (a *Admission) breakerChanged(tenant string, open bool) {
	to, kind, reason := "closed", corev1.EventTypeNormal, "AdmissionWebhooksAsked"
	message := "Admission webhooks of this space answer again: controllers ask them about what they create and update."
	if open {
		to, kind, reason = "open", corev1.EventTypeWarning, "AdmissionWebhooksNotAsked"
		message = fmt.Sprintf("Admission webhooks of this space did not answer %d times: "+
			"controllers do not ask them for a while, so that the failurePolicy of each applies.", failuresToOpen)
	}
	breakers.WithLabelValues(to).Inc()
	a.say(tenant, kind, reason, message)
}

// conversionsChanged is breakerChanged for conversion webhooks.
func (a *Admission) conversionsChanged(tenant string, open bool) {
	if !open {
		a.say(tenant, corev1.EventTypeNormal, "ConversionWebhooksAsked",
			"Conversion webhooks of this space answer again.")
		return
	}
	a.say(tenant, corev1.EventTypeWarning, "ConversionWebhooksNotAsked",
		fmt.Sprintf("Conversion webhooks of this space did not answer %d times: they are not asked for a while, "+
			"so that custom resources which need them cannot be read.", failuresToOpen))
}

// say logs it and writes the event, later.
func (a *Admission) say(tenant, kind, reason, message string) {
	a.opts.Log.WithField("tenant", tenant).WithField("reason", reason).Info(message)
	a.instances.mu.Lock()
	ctx := a.instances.ctx
	a.instances.mu.Unlock()
	if ctx == nil {
		return // not running any more, or not yet
	}
	go func() {
		if err := a.tell(ctx, tenant, kind, reason, message); err != nil {
			a.opts.Log.WithError(err).WithField("tenant", tenant).
				Warn("could not write the event about the admission webhooks of a tenant")
		}
	}()
}

// tell writes an event about the namespace default of a space.
func (a *Admission) tell(ctx context.Context, tenant, kind, reason, message string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := kubernetes.NewForConfig(tenantapi.InSpace(a.opts.System, tenant))
	if err != nil {
		return err
	}
	now := metav1.Now()
	_, err = client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "admission-", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceDefault,
			Namespace: metav1.NamespaceDefault},
		Type: kind, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "a4s-admission"},
	}, metav1.CreateOptions{})
	return err
}
