package spaces_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/process"
)

const (
	// overloadRounds is how often it is measured with and without the overload, in
	// turns.
	overloadRounds = 3
	// overloadFor is how long each takes.
	overloadFor = 4 * time.Second
	// overloadMargin is how much longer the overload takes than what is measured.
	overloadMargin = 2 * time.Second
	// overloadPath is what everybody asks for, or for one of it.
	overloadPath = "/api/v1/namespaces/default/configmaps"
	// overloadAftermath is longer than what an overload leaves to be done takes.
	overloadAftermath = 4 * time.Second
	// overloadVariable hands a client's process its work.
	overloadVariable = "A4S_OVERLOAD_WORK"
)

// overloadWork is what a process of clients does, with connections of their own.
type overloadWork struct {
	Host, Method, Path, Body, Token string
	CA, Cert, Key                   []byte
	Clients                         int
	Every                           time.Duration // between the requests of a probe, 0 for an overload
	Anew                            bool          // each request has a connection of its own, as kubectl's
}

// overloadReport is what it saw.
type overloadReport struct {
	Latencies []time.Duration // a probe's
	Codes     map[int]int
}

// TestOverload measures, and only if A4S_OVERLOAD says by how many clients, what the
// overload of one tenant does to the latency of another: a request every 5 ms.
// Everybody's clients are processes of their own that have only the processor
// time that nobody else wants, as if they were elsewhere; see TestOverloadProbe.
//
// So that it is known what of it is the machine's, another server is overloaded in
// the same way: once as a cluster beside this one would be, and once one that has
// only the processor time that this one leaves, which is as well as an overload can
// be kept from a machine's other users.
//
// A4S_OVERLOAD_KIND names the overloads to try.
func TestOverload(t *testing.T) {
	clients, err := strconv.Atoi(os.Getenv("A4S_OVERLOAD"))
	if err != nil {
		t.Skip("A4S_OVERLOAD is not a number of clients")
	}
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	here, b := p.overloaded(t), p.tenant(t, "b")
	overloadObjects(t, b)
	there := overloadElsewhere(t)
	probe := workOf(t, b.config, http.MethodGet, overloadPath+"/c1")
	probe.Every = 5 * time.Millisecond
	measure(t, probe, time.Second)() // warm

	for _, kind := range []string{"lists", "gets", "patches", "connections", "unauthorized"} {
		if only := os.Getenv("A4S_OVERLOAD_KIND"); only != "" && !slices.Contains(strings.Split(only, ","), kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			var alone, same, other, shy []time.Duration
			sums := [3]map[int]int{{}, {}, {}}
			beside := func(overload func() overloadReport, sum map[int]int) []time.Duration {
				time.Sleep(time.Second) // until it is there
				latencies := measure(t, probe, overloadFor)().answers(t)
				for code, n := range overload().Codes {
					sum[code] += n
				}
				time.Sleep(overloadAftermath) // there is nothing to wait on
				return latencies
			}
			for range overloadRounds {
				alone = append(alone, measure(t, probe, overloadFor)().answers(t)...)
				same = append(same, beside(measure(t, here[kind].by(clients), overloadFor+overloadMargin), sums[0])...)
				other = append(other, beside(there(overloadOrder{kind, clients, false}), sums[1])...)
				shy = append(shy, beside(there(overloadOrder{kind, clients, true}), sums[2])...)
			}
			base := distributionOf(alone)
			t.Logf("%s by %d clients: alone %s", kind, clients, base)
			best := distributionOf(shy)
			for i, latencies := range [][]time.Duration{same, other, shy} {
				d := distributionOf(latencies)
				t.Logf("  %s: %s, ratio of %s, to the last line's of p99 %.2f; answers a second %s", []string{
					"overloaded", "another server overloaded",
					"another server overloaded, with the processors that nobody wants",
				}[i], d, d.ratio(base), d.p99.Seconds()/best.p99.Seconds(), perSecond(sums[i]))
			}
		})
	}
}

// overloaded makes the tenant that overloads, and returns what its clients do by the
// kind of overload.
func (p *plane) overloaded(t *testing.T) map[string]overloadWork {
	t.Helper()
	a := p.tenant(t, "a")
	overloadObjects(t, a)
	lists := workOf(t, a.config, http.MethodGet, overloadPath)
	gets := workOf(t, a.config, http.MethodGet, overloadPath+"/c1")
	patches := workOf(t, a.config, http.MethodPatch, overloadPath+"/c1")
	patches.Body = `{"data":{"n":"%d"}}`
	unknown := lists
	unknown.Cert, unknown.Key, unknown.Token = nil, nil, "nobody's"
	anew := gets
	anew.Anew = true
	return map[string]overloadWork{"lists": lists, "gets": gets, "patches": patches, "connections": anew,
		"unauthorized": unknown}
}

// overloadObjects gives a tenant something to ask for.
func overloadObjects(t *testing.T, s *space) {
	t.Helper()
	for i := range 100 {
		if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)},
			Data:       map[string]string{"x": strings.Repeat("x", 500)},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// overloadOrder asks another server's process for an overload of itself.
type overloadOrder struct {
	Kind    string
	Clients int
	Shy     bool // the server takes only the processor time that nobody wants
}

// overloadElsewhere starts another server, in a process and namespaces of its own.
// What it returns overloads that one.
func overloadElsewhere(t *testing.T) func(overloadOrder) (wait func() overloadReport) {
	t.Helper()
	cmd := nstest.Command("TestOverloadElsewhere")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()  //nolint:errcheck // it ends by this
		_ = ended() // its failures were seen by who waited for a report
	})
	reports, orders := json.NewDecoder(out), json.NewEncoder(in)
	wait := func() (r overloadReport) {
		t.Helper()
		if err := reports.Decode(&r); err != nil {
			t.Fatalf("the report of the other server's overload: %v", err)
		}
		return r
	}
	wait() // that it is there
	return func(o overloadOrder) func() overloadReport {
		if err := orders.Encode(o); err != nil {
			t.Fatal(err)
		}
		return wait
	}
}

// TestOverloadElsewhere is the body of the process with the other server.
func TestOverloadElsewhere(t *testing.T) {
	if !nstest.IsCopy(t) {
		t.Skip("this is for a process that TestOverload starts")
	}
	nstest.Isolate(t)
	here := start(t, nil).overloaded(t)
	orders, reports := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for r := (overloadReport{}); ; {
		if err := reports.Encode(r); err != nil {
			t.Fatal(err)
		}
		var o overloadOrder
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		policy := "--other"
		if o.Shy {
			policy = "--idle"
		}
		if out, err := exec.Command("chrt", "--all-tasks", policy, "--pid", "0", strconv.Itoa(os.Getpid())).
			CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r = measure(t, here[o.Kind].by(o.Clients), overloadFor+overloadMargin)()
	}
}

// by is the work of so many clients.
func (w overloadWork) by(clients int) overloadWork {
	w.Clients = clients
	return w
}

// answers are the latencies, of requests that must have succeeded.
func (r overloadReport) answers(t *testing.T) []time.Duration {
	t.Helper()
	if r.Codes[http.StatusOK] != len(r.Latencies) {
		t.Fatalf("answers of other kinds: %v", r.Codes)
	}
	return r.Latencies
}

func perSecond(codes map[int]int) string {
	const d = overloadRounds * (overloadFor + overloadMargin)
	var parts []string
	for code, n := range codes {
		parts = append(parts, fmt.Sprintf("%d: %.0f", code, float64(n)/d.Seconds()))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

type distribution struct {
	n             int
	p50, p90, p99 time.Duration
}

func (d distribution) String() string {
	return fmt.Sprintf("n %d, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms", d.n, d.p50.Seconds()*1e3, d.p90.Seconds()*1e3,
		d.p99.Seconds()*1e3)
}

// ratio says how much longer it took than alone.
func (d distribution) ratio(alone distribution) string {
	of := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	return fmt.Sprintf("p50 %.2f, of p90 %.2f, of p99 %.2f", of(d.p50, alone.p50), of(d.p90, alone.p90),
		of(d.p99, alone.p99))
}

func distributionOf(all []time.Duration) distribution {
	slices.Sort(all)
	return distribution{len(all), all[len(all)/2], all[len(all)*9/10], all[len(all)*99/100]}
}

func workOf(t *testing.T, cfg *rest.Config, method, path string) overloadWork {
	t.Helper()
	ca, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return overloadWork{Host: cfg.Host, Method: method, Path: path, CA: ca, Cert: cfg.CertData, Key: cfg.KeyData}
}

// measure starts a process of clients, which has only the processor time that
// nobody else wants. The returned function waits for what it has to report.
func measure(t *testing.T, w overloadWork, d time.Duration) (wait func() overloadReport) {
	t.Helper()
	work, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	test, variable, modest := "TestOverloadClients", overloadVariable, []string{"chrt", "--idle", "0"}
	if w.Every > 0 {
		test, variable, modest = "TestOverloadProbe", probeVariable, []string{"nice", "-n", "19"}
	}
	cmd := exec.Command(modest[0], append(modest[1:], self, "-test.run=^"+test+"$", "-test.count=1")...)
	cmd.Env = append(os.Environ(), variable+"="+d.String(), "GOMAXPROCS=")
	cmd.Stdin = bytes.NewReader(work)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	ended, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return func() (r overloadReport) {
		t.Helper()
		err := ended()
		line, _, _ := strings.Cut(out.String(), "\n")
		if err == nil {
			err = json.Unmarshal([]byte(line), &r)
		}
		if err != nil {
			t.Fatalf("clients: %v\n%s%s", err, out.String(), problems.String())
		}
		return r
	}
}

// TestOverloadClients is the body of a process of clients.
func TestOverloadClients(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv(overloadVariable))
	if err != nil {
		t.Skip("this is for processes that TestOverload starts")
	}
	var w overloadWork
	if err := json.NewDecoder(os.Stdin).Decode(&w); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r := overloadReport{Codes: map[int]int{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	var n atomic.Int64
	for range w.Clients {
		secure, err := w.secure()
		if err != nil {
			t.Fatal(err)
		}
		client := w.client(secure)
		group.Go(func() {
			codes := map[int]int{}
			for ctx.Err() == nil {
				if code := w.ask(ctx, client, n.Add(1)); code != 0 {
					codes[code]++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for code, n := range codes {
				r.Codes[code] += n
			}
		})
	}
	group.Wait()
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(out))
}

func (w *overloadWork) secure() (*tls.Config, error) {
	return rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: w.CA,
		CertData: w.Cert, KeyData: w.Key}})
}

func (w *overloadWork) client(secure *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true,
		DisableKeepAlives: w.Anew}}
}

// ask is the code of an answer, 0 when it was cut short.
func (w *overloadWork) ask(ctx context.Context, client *http.Client, n int64) int {
	var body io.Reader
	if w.Body != "" {
		body = strings.NewReader(fmt.Sprintf(w.Body, n))
	}
	req, err := http.NewRequestWithContext(ctx, w.Method, w.Host+w.Path, body)
	if err != nil {
		return 0
	}
	if w.Body != "" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if w.Token != "" {
		req.Header.Set("Authorization", "Bearer "+w.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}
