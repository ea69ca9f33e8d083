package main

import (
	"bufio"
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/bench/users"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
	"github.com/a4s-io/a4s/tests/process"
)

const (
	startTimeout = 5 * time.Minute
	// prepareTimeout bounds how long an attack is prepared.
	prepareTimeout = 10 * time.Minute
	// settle is how long an attack goes on before it is measured beside it, and after.
	settle = 2 * time.Second
	weigh  = 250 * time.Millisecond
)

// trial measures one row.
type trial struct {
	*settings
	row   row
	round measure.Round
	// servers run for this row: home, and in one row another.
	servers []*sides.Side
}

func (t *trial) set(quantity string, value float64) { t.round.Set(quantity, t.row.name, value) }

func (t *trial) run(ctx context.Context, m *sides.Maker) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer t.close()
	defer func() {
		if err != nil {
			t.tell()
		}
	}()
	home, err := t.start(ctx, m, "hostile")
	if err != nil {
		return err
	}
	asked := home
	if t.row.away() {
		if asked, err = t.startAway(ctx, m, home); err != nil {
			return err
		}
	}
	limited, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	signer, err := asked.Signer()
	if err != nil {
		return err
	}
	maker, err := users.NewMaker(ctx, home, true)
	if err != nil {
		return err
	}
	node := maker.Signer // home has the node
	maker.Signer, maker.Partition = signer, partitionapi.Home
	neighbours, err := t.neighbours(limited, asked, maker)
	if err != nil {
		return err
	}
	// There is room for all pods of both: what is measured is not who has the node.
	if _, err := hollow.Start(ctx, hollow.Options{Nodes: 1, Pods: 10_000, Access: node.User}); err != nil {
		return err
	}
	hostile, err := t.hostile(limited, home, signer)
	if err != nil {
		return err
	}
	hostile.Outside = m.Lab.Gateway.String()
	attacking, err := startAttack(ctx, hostile)
	if err != nil {
		return err
	}
	defer attacking.end()
	return t.measure(ctx, neighbours, attacking)
}

// start starts a server and returns when it is ready.
func (t *trial) start(ctx context.Context, m *sides.Maker, name string, args ...string) (*sides.Side, error) {
	s, err := m.A4s(ctx, name, slices.Concat(sides.PlainA4s(), []string{"--disable-agent"}, args)...)
	if err != nil {
		return nil, err
	}
	t.servers = append(t.servers, s)
	s.Start()
	limited, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	if err := s.AwaitReady(limited); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return s, nil
}

// close ends the servers, the last one first.
func (t *trial) close() {
	for _, s := range slices.Backward(t.servers) {
		s.Close()
	}
}

// tell logs what could explain a failure.
func (t *trial) tell() {
	for _, s := range t.servers {
		for _, path := range s.Host.Logs() {
			log.Printf("%s: %s:\n%s", s.Host.Name, filepath.Base(path), hosts.LastLines(path, 10))
		}
	}
}

// neighbours are the users that are measured, who ask this server about what is at home.
func (t *trial) neighbours(ctx context.Context, asked *sides.Side, maker *users.Maker) (*neighbours, error) {
	if err := maker.Accounts.Await(ctx, metav1.NamespaceDefault); err != nil {
		return nil, err
	}
	space, err := maker.MakeOne(ctx, "neighbour")
	if err != nil {
		return nil, err
	}
	admin := asked.Config
	if t.row.away() {
		admin = ofHome(admin)
	}
	return newNeighbours(ctx, space, admin)
}

// hostile makes the tenant of the attacker, at home. It returns the order without what is
// outside.
func (t *trial) hostile(ctx context.Context, home *sides.Side, signer *sides.Signer) (order, error) {
	tenants, err := tenantapi.NewClient(home.Config, nil)
	if err != nil {
		return order{}, err
	}
	tenant, err := tenants.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "hostile"},
		Spec: tenantapi.TenantSpec{Partition: partitionapi.Home}}, metav1.CreateOptions{})
	if err != nil {
		return order{}, err
	}
	access, err := signer.Client(pkix.Name{CommonName: "admin", Organization: []string{"tenant:hostile"},
		SerialNumber: string(tenant.UID)})
	o := orderOf(t.row.name, access)
	o.For = t.beside + 2*settle
	return o, err
}

func (t *trial) measure(ctx context.Context, n *neighbours, a *attacking) error {
	if _, err := n.during(ctx, settle); err != nil { // warm
		return err
	}
	alone, err := n.during(ctx, t.alone)
	if err != nil {
		return err
	}
	done, err := a.begin()
	if err != nil {
		return err
	}
	if err := sides.Sleep(ctx, settle); err != nil {
		return err
	}
	most := make(chan float64, 1)
	weighing, stop := context.WithCancel(ctx)
	go func() { most <- t.heaviest(weighing) }()
	beside, err := n.during(ctx, t.beside)
	stop()
	t.set(peak, <-most)
	if err != nil {
		return err
	}
	got, err := done()
	if err != nil {
		return err
	}
	if got.Error != "" {
		log.Printf("  %s: the attack ended early: %s", t.row.name, got.Error)
	}
	t.keep(alone, beside, got)
	return nil
}

func (t *trial) keep(alone, beside seen, got gain) {
	for _, of := range []struct {
		alone, beside string
		now, with     []time.Duration
	}{
		{getAlone, getBeside, alone.gets, beside.gets},
		{podAlone, podBeside, alone.pods, beside.pods},
		{adminAlone, adminBeside, alone.admin, beside.admin},
	} {
		for suffix, part := range map[string]float64{p50: 0.5, p99: 0.99} {
			t.set(of.alone+suffix, sides.Seconds(of.now, part)*1e3)
			t.set(of.beside+suffix, sides.Seconds(of.with, part)*1e3)
		}
	}
	t.set(failed, float64(beside.errors))
	ok, no := 0, 0
	for code, n := range got.Codes {
		if code > 0 && code < 300 {
			ok += n
		} else {
			no += n
		}
	}
	seconds := (t.beside + 2*settle).Seconds()
	t.set(answered, float64(ok)/seconds)
	t.set(refused, float64(no)/seconds)
	log.Printf("  %s: get p50 %.1f ms, p99 %.1f ms (alone %.1f, %.1f); the attacker's answers: %v", t.row.name,
		sides.Seconds(beside.gets, 0.5)*1e3, sides.Seconds(beside.gets, 0.99)*1e3,
		sides.Seconds(alone.gets, 0.5)*1e3, sides.Seconds(alone.gets, 0.99)*1e3, got.Codes)
}

// heaviest is the most memory that all servers had resident until the context ended.
func (t *trial) heaviest(ctx context.Context) float64 {
	most := 0.0
	for sides.Sleep(ctx, weigh) == nil {
		now := 0.0
		for _, s := range t.servers {
			if of, _, _, err := s.Memory(); err == nil {
				now += of
			}
		}
		most = max(most, now)
	}
	return most
}

// attacking is a process that attacks.
type attacking struct {
	cmd  *exec.Cmd
	wait func() error
	in   io.WriteCloser
	out  *bufio.Reader
}

// startAttack starts the process and returns when it is prepared.
func startAttack(ctx context.Context, o order) (*attacking, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &attacking{cmd: exec.CommandContext(ctx, "chrt", "--idle", "0", self, attackArg)}
	a.cmd.Stderr = os.Stderr
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	if a.wait, err = process.Start(a.cmd); err != nil {
		return nil, err
	}
	late := time.AfterFunc(prepareTimeout, func() { _ = a.cmd.Process.Kill() }) //nolint:errcheck // it has ended
	defer late.Stop()
	if err := json.NewEncoder(a.in).Encode(o); err != nil {
		a.end()
		return nil, err
	}
	line, err := a.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != prepared {
		a.end()
		return nil, fmt.Errorf("preparing the attack %s: it said %q: %w", o.Row, line, err)
	}
	return a, nil
}

// begin has it attack; done waits until it has, and returns what it got.
func (a *attacking) begin() (done func() (gain, error), err error) {
	if _, err := fmt.Fprintln(a.in, begin); err != nil {
		return nil, err
	}
	return func() (g gain, err error) {
		err = json.NewDecoder(a.out).Decode(&g)
		return g, err
	}, nil
}

func (a *attacking) end() {
	a.in.Close()             //nolint:errcheck // it ends by this
	_ = a.cmd.Process.Kill() //nolint:errcheck // it has ended
	_ = a.wait()             //nolint:errcheck // it was killed
}
