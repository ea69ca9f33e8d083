package admission

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
)

// unready is a plugin that never knows its configurations.
type unready struct {
	admission.Interface
	asked, end chan struct{}
}

func (u *unready) WaitForReady() bool {
	close(u.asked)
	<-u.end
	return false
}

// A request that waits for the configurations of a tenant goes on without them
// when the tenant deletes the last one.
func TestRequestsDoNotWaitForPluginsThatHaveEnded(t *testing.T) {
	a := &Admission{presence: newPresence()}
	a.presence.gone = a.stop
	a.instances.ctx, a.instances.byName = t.Context(), map[string]*instance{}
	const tenant, name = "t1", mutatingwebhook.PluginName
	a.presence.add(tenant, name, 1)
	u := &unready{asked: make(chan struct{}), end: make(chan struct{})}
	defer close(u.end)
	a.instance(tenant).plugins[name] = u
	type found struct {
		own admission.Interface
		err error
	}
	done := make(chan found)
	go func() {
		own, err := (&plugin{name: name, admission: a}).own(t.Context(), tenant, nil)
		done <- found{own, err}
	}()
	<-u.asked
	a.presence.add(tenant, name, -1)
	if got := <-done; got.own != nil || got.err != nil {
		t.Errorf("%v, %v", got.own, got.err)
	}
}

// One that its client gives up does not wait either.
func TestRequestsThatEndDoNotWaitForPlugins(t *testing.T) {
	i := &instance{ctx: t.Context(), known: map[string]bool{}}
	u := &unready{asked: make(chan struct{}), end: make(chan struct{})}
	defer close(u.end)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-u.asked
		cancel()
	}()
	if err := i.wait(ctx, "any", u); err == nil {
		t.Error("it was taken for ready")
	}
}
