package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/bench/sides"
)

// startAway starts the server of another partition, with tenants only, and returns when it
// sends requests on to home.
func (t *trial) startAway(ctx context.Context, m *sides.Maker, home *sides.Side) (*sides.Side, error) {
	token, err := os.ReadFile(home.Host.Path("/var/lib/a4s/server/token"))
	if err != nil {
		return nil, fmt.Errorf("reading the token of home: %w", err)
	}
	const name = "tp2"
	s, err := t.start(ctx, m, name, "--tenant-partition", name, "--service-cidr", "10.44.0.0/16",
		"--cluster", home.Config.Host, "--token", strings.TrimSpace(string(token)))
	if err != nil {
		return nil, err
	}
	admin, err := kubernetes.NewForConfig(ofHome(s.Config))
	if err != nil {
		return nil, err
	}
	limited, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	return s, sides.Await(limited, "requests that "+name+" sends on", func() error {
		_, err := admin.CoreV1().Namespaces().Get(limited, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

// ofHome is the access of an administrator to what is at home, through any server.
func ofHome(access *rest.Config) *rest.Config {
	config := rest.CopyConfig(access)
	config.Host += partitionapi.PathPrefix + partitionapi.Home
	return config
}
