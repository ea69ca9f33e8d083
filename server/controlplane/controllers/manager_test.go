package controllers

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// A port or an election that the operator asks for is upstream's affair.
func TestWhatOnlyUpstreamRuns(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*config.Config)
		want bool
	}{
		"by default":  {func(*config.Config) {}, false},
		"with a port": {func(c *config.Config) { c.SecureServing = &server.SecureServingInfo{} }, true},
		"with an election": {func(c *config.Config) { c.ComponentConfig.Generic.LeaderElection.LeaderElect = true },
			true},
	} {
		cfg := &config.Config{}
		c.set(cfg)
		if got := byUpstream(cfg.Complete()); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The controller that app.Run treats specially is ours to make, and the only
// one: another one would silently not run.
func TestNoControllerIsLeftOut(t *testing.T) {
	for name, d := range app.NewControllerDescriptors() {
		if d.RequiresSpecialHandling() != (name == names.ServiceAccountTokenController) {
			t.Errorf("%s requires special handling: %t", name, d.RequiresSpecialHandling())
		}
	}
}

func TestLoopIsAController(t *testing.T) {
	ran := false
	var c app.Controller = loop{"name", func(context.Context) { ran = true }}
	c.Run(t.Context())
	if !ran || c.Name() != "name" {
		t.Errorf("ran %t, name %q", ran, c.Name())
	}
}

// Clients that are no service account's are the root's.
func TestClientsWithoutServiceAccounts(t *testing.T) {
	cfg := &config.Config{Kubeconfig: &rest.Config{Host: "https://192.0.2.1"},
		Client: kubernetes.NewForConfigOrDie(&rest.Config{})}
	m := &manager{config: cfg.Complete()}
	if got := m.clients(); got != m.root {
		t.Errorf("got %T", got)
	}
	cfg.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials = true
	if got := m.clients(); got == m.root {
		t.Error("no clients of their own with service account credentials")
	}
}
