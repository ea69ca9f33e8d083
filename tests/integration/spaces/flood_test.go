package spaces_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
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
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/nstest"
)

const (
	// floodRounds is how often it is measured with and without the flood, in
	// turns.
	floodRounds = 3
	// floodFor is how long each takes.
	floodFor = 4 * time.Second
	// floodAftermath is longer than what a flood leaves to be done takes.
	floodAftermath = 4 * time.Second
	// floodVariable hands a client's process its work.
	floodVariable = "A4S_FLOOD_WORK"
	// first and idle are the scheduling policies of processes, by chrt.
	first, idle = "--fifo 1", "--idle 0"
)

// floodWork is what a process of clients does, with connections of their own.
type floodWork struct {
	Host, Method, Path, Body, Token string
	CA, Cert, Key                   []byte
	Clients                         int
	Every                           time.Duration // between the requests of a client, 0 for none
}

// floodReport is what it saw.
type floodReport struct {
	Latencies []time.Duration // of the answers with 200
	Codes     map[int]int
}

// TestFlood measures, and only if A4S_FLOOD says by how many clients, what the
// flood of one tenant does to the latency of another: a request every 5 ms.
// Everybody's clients are processes of their own. Those of the flood have only
// the processor time that nobody else wants, and the other does not wait for a
// processor, as if all were elsewhere.
// A4S_FLOOD_KIND names the floods to try.
func TestFlood(t *testing.T) {
	clients, err := strconv.Atoi(os.Getenv("A4S_FLOOD"))
	if err != nil {
		t.Skip("A4S_FLOOD is not a number of clients")
	}
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	for _, s := range []*space{a, b} {
		for i := range 100 {
			if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}, Data: map[string]string{"x": strings.Repeat("x", 500)},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the flow schema of tenants", func(ctx context.Context) (bool, error) {
		_, err := p.admin.FlowcontrolV1().FlowSchemas().Get(ctx, "a4s-tenants", metav1.GetOptions{})
		return err == nil, nil
	})
	const path = "/api/v1/namespaces/default/configmaps"
	probe := workOf(t, b.config, http.MethodGet, path+"/c1", 1)
	probe.Every = 5 * time.Millisecond
	measure(t, probe, first, time.Second)() // warm

	lists, gets := workOf(t, a.config, http.MethodGet, path, clients), workOf(t, a.config, http.MethodGet, path+"/c1", clients)
	writes := workOf(t, a.config, http.MethodPatch, path+"/c1", clients)
	writes.Body = `{"data":{"n":"%d"}}`
	unknown := lists
	unknown.Cert, unknown.Key, unknown.Token = nil, nil, "nobody's"
	for _, f := range []struct {
		kind string
		work floodWork
	}{{"lists", lists}, {"gets", gets}, {"patches", writes}, {"unauthorized", unknown}} {
		if only := os.Getenv("A4S_FLOOD_KIND"); only != "" && !slices.Contains(strings.Split(only, ","), f.kind) {
			continue
		}
		t.Run(f.kind, func(t *testing.T) {
			var alone, flooded []time.Duration
			codes := map[int]int{}
			var used time.Duration
			for range floodRounds {
				alone = append(alone, measure(t, probe, first, floodFor)().Latencies...)
				flood := measure(t, f.work, idle, floodFor+2*time.Second)
				time.Sleep(time.Second)
				before := processorTime(t)
				flooded = append(flooded, measure(t, probe, first, floodFor)().Latencies...)
				used += processorTime(t) - before
				for code, n := range flood().Codes {
					codes[code] += n
				}
				time.Sleep(floodAftermath) // there is nothing to wait on
			}
			without, with := distributionOf(alone), distributionOf(flooded)
			t.Logf("%s: alone %s; flooded %s, ratio of p50 %.2f, of p90 %.2f, of p99 %.2f; by %d clients with answers a second %s; the server used %.2f CPUs",
				f.kind, without, with, ratio(with.p50, without.p50), ratio(with.p90, without.p90), ratio(with.p99, without.p99), clients,
				perSecond(codes, floodRounds*(floodFor+2*time.Second)), used.Seconds()/(floodRounds*floodFor).Seconds())
		})
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func perSecond(codes map[int]int, d time.Duration) string {
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
	return fmt.Sprintf("n %d, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms", d.n, d.p50.Seconds()*1e3, d.p90.Seconds()*1e3, d.p99.Seconds()*1e3)
}

func distributionOf(all []time.Duration) distribution {
	slices.Sort(all)
	return distribution{len(all), all[len(all)/2], all[len(all)*9/10], all[len(all)*99/100]}
}

// processorTime is what this process, the server, has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func workOf(t *testing.T, cfg *rest.Config, method, path string, clients int) floodWork {
	t.Helper()
	ca, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return floodWork{Host: cfg.Host, Method: method, Path: path, CA: ca, Cert: cfg.CertData, Key: cfg.KeyData, Clients: clients}
}

// measure starts a process of clients. The returned function waits for what it
// has to report.
func measure(t *testing.T, w floodWork, policy string, d time.Duration) (wait func() floodReport) {
	t.Helper()
	work, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chrt", append(strings.Fields(policy), self, "-test.run=^TestFloodClients$", "-test.count=1")...)
	cmd.Env = append(os.Environ(), floodVariable+"="+d.String(), "GOMAXPROCS=")
	cmd.Stdin = bytes.NewReader(work)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (r floodReport) {
		t.Helper()
		err := cmd.Wait()
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

// TestFloodClients is the body of a process of clients.
func TestFloodClients(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv(floodVariable))
	if err != nil {
		t.Skip("this is for processes that TestFlood starts")
	}
	var w floodWork
	if err := json.NewDecoder(os.Stdin).Decode(&w); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r := floodReport{Codes: map[int]int{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	var n atomic.Int64
	for range w.Clients {
		secure, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: w.CA, CertData: w.Cert, KeyData: w.Key}})
		if err != nil {
			t.Fatal(err)
		}
		client := w.client(secure)
		group.Go(func() {
			tick := time.NewTicker(max(w.Every, 1))
			defer tick.Stop()
			var latencies []time.Duration
			codes := map[int]int{}
			for ctx.Err() == nil {
				begin := time.Now()
				code := w.ask(ctx, client, n.Add(1))
				if code == 0 {
					continue
				}
				if codes[code]++; code == http.StatusOK {
					latencies = append(latencies, time.Since(begin))
				}
				if w.Every > 0 {
					<-tick.C
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for code, n := range codes {
				r.Codes[code] += n
			}
			if w.Every > 0 {
				r.Latencies = append(r.Latencies, latencies...)
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

func (w *floodWork) client(secure *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true}}
}

// ask is the code of an answer, 0 when it was cut short.
func (w *floodWork) ask(ctx context.Context, client *http.Client, n int64) int {
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
