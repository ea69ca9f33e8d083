package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/bootstrap"
	"github.com/a4s-io/a4s/agent/bootstrap/podcheck"
	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/instance"
)

// bootstrapPods is what a node with --bootstrap-pod-api has more. They are pods of the home
// partition.
type bootstrapPods struct {
	store  *store.Store
	origin *origin.Bootstrap
	client kubernetes.Interface
}

// openBootstrapPods reads the bootstrap pods and the checkpoint of the node from
// disk, and what is known of the partitions. It must be called before the node joins. The
// former are nil without --bootstrap-pod-api; offline says that the node runs before there
// is a server.
func openBootstrapPods(
	cfg *config.Agent, dir string, a *access, offline bool,
) (*bootstrapPods, *tenantPartitions, error) {
	podDir, checkpoint := filepath.Join(dir, "bootstrap"), filepath.Join(dir, "checkpoint")
	if !cfg.BootstrapPodAPI {
		if files, err := filepath.Glob(filepath.Join(podDir, "*.json")); err == nil && len(files) > 0 {
			logrus.WithField("component", "agent").
				Warnf("there are %d bootstrap pods in %s, which need --bootstrap-pod-api", len(files), podDir)
		}
		parts, err := openPartitions(cfg, dir, a, offline, nil)
		// Nobody keeps it up to date, and an old one would end pods.
		return nil, parts, errors.Join(err, os.RemoveAll(checkpoint))
	}
	log := logrus.WithField("component", bootstrap.Name)
	kept, damaged, err := store.Open(podDir)
	if err != nil {
		return nil, nil, err
	}
	for _, err := range damaged {
		log.WithError(err).Error("a bootstrap pod cannot be read; the others go on")
	}
	p := &bootstrapPods{store: kept}
	p.origin, err = origin.NewBootstrap(origin.BootstrapOptions{
		Store: kept, Dir: checkpoint,
		Fresh: a.fresh(),
		Probe: func(ctx context.Context) error {
			_, err := p.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("spec.nodeName", cfg.NodeName).String(), Limit: 1,
			})
			return err
		},
		Log: logrus.WithField("component", origin.BootstrapName),
	})
	if err != nil {
		return nil, nil, err
	}
	parts, err := openPartitions(cfg, dir, a, offline, p.origin.Before)
	if err != nil {
		return nil, nil, err
	}
	p.client, err = kubernetes.NewForConfig(&rest.Config{
		Host: a.url, Transport: parts.source.Home(), UserAgent: "a4s/" + bootstrap.PersisterName,
		Timeout: 15 * time.Second, QPS: -1,
	})
	if err != nil {
		return nil, nil, err
	}
	return p, parts, nil
}

// start serves the API of bootstrap pods, if it is turned on, and offers them to
// the server.
func (p *bootstrapPods) start(ctx context.Context, group *component.Group, nodeName string) error {
	if p == nil {
		return nil
	}
	checker, err := podcheck.New(nodeName)
	if err != nil {
		return err
	}
	group.Start(ctx, p.origin.Component())
	api := bootstrap.New(bootstrap.Options{
		Store: p.store, Checker: checker, Live: p.origin.Live,
		Lookup: func(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
			return p.client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		},
		Log: logrus.WithField("component", bootstrap.Name),
	})
	if err := group.StartAndWait(ctx, api.Component(bootstrapapi.Socket(instance.RunDir))); err != nil {
		return err
	}
	persister := &bootstrap.Persister{Store: p.store, Pods: p.client.CoreV1(),
		Log: logrus.WithField("component", bootstrap.PersisterName)}
	group.Start(ctx, persister.Component())
	return nil
}
