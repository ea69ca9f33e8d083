package controllers

import (
	"testing"

	"github.com/sirupsen/logrus/hooks/test"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"github.com/a4s-io/a4s/server/controlplane/controllers/gate"
)

// The names of upstream's controllers and of their queues are what the gates know them by: a
// queue of another name would be said in the log only.
func TestGatedControllers(t *testing.T) {
	defaults, err := options.NewDefaultComponentConfig()
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: "https://192.0.2.1"}
	asked := &asked{Builder: clientbuilder.SimpleControllerClientBuilder{ClientConfig: config},
		accounts: map[string]bool{}}
	cc := app.ControllerContext{
		ClientBuilder:   asked,
		InformerFactory: informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0),
		ComponentConfig: defaults,
	}
	cc.ComponentConfig.Generic.Controllers = []string{"*"}
	log, said := test.NewNullLogger()
	m := &manager{log: log.WithField("component", Name)}
	all := app.NewControllerDescriptors()
	made, others, err := m.gated(t.Context(), cc, all)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != len(allGated()) || len(others) != len(all)-len(made) {
		t.Errorf("%d controllers made and %d left of %d, want %d made", len(made), len(others), len(all),
			len(allGated()))
	}
	for _, e := range said.AllEntries() {
		t.Errorf("%s: %v", e.Message, e.Data)
	}
	users := Gated()
	if len(asked.accounts) != len(users) {
		t.Errorf("they ask for %d clients, and have %d users", len(asked.accounts), len(users))
	}
	for account := range asked.accounts {
		if !users["system:serviceaccount:kube-system:"+account] {
			t.Errorf("a controller with a gate is %q, whose requests wait for nobody", account)
		}
	}
}

// asked takes note of whose clients are asked for.
type asked struct {
	gate.Builder
	accounts map[string]bool
}

// Config implements gate.Builder.
func (a *asked) Config(name string) (*rest.Config, error) {
	a.accounts[name] = true
	return a.Builder.Config(name)
}

// Client implements gate.Builder.
func (a *asked) Client(name string) (kubernetes.Interface, error) {
	a.accounts[name] = true
	return a.Builder.Client(name)
}

// Twenty workers, unless the operator says otherwise.
func TestWorkersOfGatedControllers(t *testing.T) {
	s, err := parse(Options{Args: []string{"concurrent-job-syncs=7"}})
	if err != nil {
		t.Fatal(err)
	}
	d, j := s.DeploymentController.ConcurrentDeploymentSyncs, s.JobController.ConcurrentJobSyncs
	if d != 20 || j != 7 {
		t.Errorf("%d workers for Deployments and %d for Jobs, want 20 and 7", d, j)
	}
}
