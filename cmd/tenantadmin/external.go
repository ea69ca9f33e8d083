package tenantadmin

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// External is the URL of the cluster for other machines: the one that an Admin talks to, unless
// that is an address of this machine alone. The API server says another one then; "" is that it
// says none.
func External(ctx context.Context, a *Admin) (string, error) {
	u, err := url.Parse(a.server)
	if err != nil || !Local(u.Hostname()) {
		return a.server, nil
	}
	answer, err := a.kube.CoreV1().RESTClient().Get().AbsPath("/api").SetHeader("Accept", "application/json").
		DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking the API server for its address: %w", err)
	}
	var versions metav1.APIVersions
	if err := json.Unmarshal(answer, &versions); err != nil {
		return "", fmt.Errorf("reading the addresses of the API server: %w", err)
	}
	for _, of := range versions.ServerAddressByClientCIDRs {
		if of.ClientCIDR != "0.0.0.0/0" { // the other one is for what runs in the cluster
			continue
		}
		host, _, err := net.SplitHostPort(of.ServerAddress)
		if err != nil || Local(host) {
			return "", nil
		}
		u.Host = of.ServerAddress
		return u.String(), nil
	}
	return "", nil
}

// Local reports whether a host is the machine itself.
func Local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
