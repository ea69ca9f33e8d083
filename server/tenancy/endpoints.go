package tenancy

import (
	"fmt"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/reach/endpoints"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// Endpoints keeps the endpoints of tenants to their own pods. config has all rights on
// them.
func Endpoints(config *restclient.Config, cluster *inside.Cluster, pool *interning.Pool) (component.Component, error) {
	own := restclient.AddUserAgent(restclient.CopyConfig(config), endpoints.Name)
	own.QPS = -1                                 // what it takes off must not wait
	own.WarningHandler = restclient.NoWarnings{} // that Endpoints are old
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return component.Component{}, fmt.Errorf("making the client of %s: %w", endpoints.Name, err)
	}
	return endpoints.New(endpoints.Options{Client: client, Inside: cluster, Pool: pool,
		Log: logrus.WithField("component", endpoints.Name)}), nil
}
