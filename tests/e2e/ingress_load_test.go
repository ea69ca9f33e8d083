package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// graceful has a pod serve for a while after it was told to end, as pods do that lose no request.
func graceful(spec *corev1.PodSpec) {
	spec.TerminationGracePeriodSeconds = new(int64(20))
	spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Sleep: &corev1.SleepAction{Seconds: 3}}}
}

// load has clients ask a node for a host again and again by connections that they keep. The function that it
// returns ends that, reports what failed, and returns the pods that answered.
func (i *ingressTest) load(t *testing.T, ip, host string) (end func() (pods []string)) {
	const clients = 8
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	failed, asked, by := 0, 0, map[string]bool{}
	var working sync.WaitGroup
	for range clients {
		client := &http.Client{Transport: &http.Transport{DialContext: dialFrom(i.outside)}}
		working.Go(func() {
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				a, err := get(ctx, client, ip, host, "/request/")
				mu.Lock()
				switch {
				case err == nil && a.status == http.StatusOK:
					asked++
					by[a.Pod] = true
				case ctx.Err() == nil:
					if failed++; failed <= 10 {
						t.Errorf("a request: %v, %v", a, err)
					}
				}
				mu.Unlock()
			}
		})
	}
	return func() []string {
		cancel()
		working.Wait()
		t.Logf("%d requests were answered, %d failed", asked, failed)
		if asked < 100 {
			t.Errorf("only %d requests were answered", asked)
		}
		return slices.Sorted(maps.Keys(by))
	}
}

// secureGet asks by HTTPS, and believes only the certificate in PEM.
func (i *ingressTest) secureGet(ctx context.Context, ip, host string, certificate []byte) (answer, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		return answer{}, errors.New("no certificate")
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialFrom(i.outside), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}}}
	return getBy(ctx, client, "https", ip, host, "/request/")
}

func (a answer) String() string { return fmt.Sprintf("%d %q of pod %q", a.status, a.text, a.Pod) }
