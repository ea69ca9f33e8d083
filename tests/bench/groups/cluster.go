package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	// startTimeout bounds the start of servers on a datastore with much in it.
	startTimeout = 10 * time.Minute
	// appliedAnnotation is on the Lease of a server, with the newest configuration that its
	// caches have met.
	appliedAnnotation = "a4s.io/applied-revision"
	// leaderLease is that of the server which leads, and serverLease begins the name of the
	// one that each server has.
	leaderLease, serverLease = "a4s-controllers", "a4s-server-"
)

// cluster is the datastore and its servers, of which some run.
type cluster struct {
	*settings
	etcd    *sides.Side
	servers []*sides.Side
	// running are the first servers, of a layout.
	running int
	layout  layout

	fleet   *hollow.Fleet
	groups  *groupwatch.Groups
	follows sync.WaitGroup
	mu      sync.Mutex
	others  map[string][]string // addresses of servers by group, but for that of the first
}

// newCluster makes hosts, and starts nothing but etcd.
func newCluster(ctx context.Context, s *settings, m *sides.Maker) (_ *cluster, err error) {
	c := &cluster{settings: s}
	c.groups = groupwatch.New(c, logrus.NewEntry(logrus.StandardLogger()))
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.etcd, err = m.Etcd(ctx, "etcd"); err != nil {
		return nil, err
	}
	c.etcd.Start()
	for i := range s.mostServers() {
		server, err := m.A4s(ctx, fmt.Sprint("server-", i))
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, server)
	}
	return c, nil
}

// close ends everything. The context of what runs has ended.
func (c *cluster) close() {
	if c.fleet != nil {
		c.fleet.Wait()
	}
	c.follows.Wait()
	for _, s := range c.servers {
		s.Close()
	}
	if c.etcd != nil {
		c.etcd.Close()
	}
}

// tell logs what could explain a failure.
func (c *cluster) tell(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	for _, s := range append(c.servers, c.etcd) {
		for _, path := range s.Host.Logs() {
			log.Printf("%s: %s:\n%s", s.Host.Name, filepath.Base(path), hosts.LastLines(path, 10))
		}
	}
	c.tellFailures()
}

func (c *cluster) tellFailures() {
	if c.fleet == nil {
		return
	}
	if n, last := c.fleet.Failures(); n > 0 {
		log.Printf("  %d requests of nodes failed until now, the last one: %v", n, last)
	}
}

// Group implements groupwatch.Servers.
func (c *cluster) Group(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.others[id]
}

// start starts the servers of a layout on the datastore as it is.
func (c *cluster) start(ctx context.Context, l layout) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c.layout = l
	others := map[string][]string{}
	for i, s := range c.servers[:l.servers()] {
		args := append(sides.PlainA4s(), "--disable-agent")
		args = append(args, c.etcd.DatastoreArgs()...)
		if group := l.group(i); group != "" {
			args = append(args, "--service-group-id", group)
			if i > 0 {
				others[group] = append(others[group], net.JoinHostPort(s.Host.IP.String(), "6443"))
			}
		}
		if i > 0 {
			token, err := os.ReadFile(c.servers[0].Host.Path("/var/lib/a4s/server/token"))
			if err != nil {
				return fmt.Errorf("reading the token of the first server: %w", err)
			}
			args = append(args, "--server", c.servers[0].Config.Host, "--token", strings.TrimSpace(string(token)))
		}
		s.SetArgs(args...)
		s.Start()
		c.running = i + 1
		// One after the other: the first one is to lead.
		if err := s.AwaitReady(limited); err != nil {
			return fmt.Errorf("starting %s: %w", s.Host.Name, err)
		}
		if i == 0 {
			if err := c.awaitLeader(limited); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	c.others = others
	c.mu.Unlock()
	return c.awaitApplied(limited)
}

// stop ends all servers.
func (c *cluster) stop() error {
	var errs []error
	for _, s := range c.servers[:c.running] {
		if err := s.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", s.Host.Name, err))
		}
	}
	c.running = 0
	return errors.Join(errs...)
}

// awaitLeader returns when the first server leads.
func (c *cluster) awaitLeader(ctx context.Context) error {
	return sides.Await(ctx, "the first server to lead", func() error {
		client := c.servers[0].Client.CoordinationV1().Leases(metav1.NamespaceSystem)
		lease, err := client.Get(ctx, leaderLease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if holder != c.servers[0].Host.Name {
			return fmt.Errorf("%q leads", holder)
		}
		return nil
	})
}

// awaitApplied returns when all servers have met the newest configuration.
func (c *cluster) awaitApplied(ctx context.Context) error {
	if c.layout.groups == 0 {
		return nil
	}
	configs, err := partitionapi.NewClient(c.servers[0].Config, nil)
	if err != nil {
		return err
	}
	return sides.Await(ctx, "the servers to meet the configurations", func() error {
		list, err := configs.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		newest := int64(0)
		for i := range list.Items {
			newest = max(newest, revision(list.Items[i].ResourceVersion))
		}
		leases := c.servers[0].Client.CoordinationV1().Leases(metav1.NamespaceSystem)
		for _, s := range c.servers[:c.running] {
			lease, err := leases.Get(ctx, serverLease+s.Host.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 5*time.Second ||
				revision(lease.Annotations[appliedAnnotation]) < newest {
				return fmt.Errorf("%s has not", s.Host.Name)
			}
		}
		return nil
	})
}

func revision(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) //nolint:errcheck // what is none is before all others
	return n
}

// configure splits the tenants as a layout says, by a server that runs.
func (c *cluster) configure(ctx context.Context, l layout) error {
	client, err := partitionapi.NewClient(c.servers[0].Config, nil)
	if err != nil {
		return err
	}
	for g := range c.mostGroups() {
		name := fmt.Sprint("bench-", g)
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if g >= l.groups {
			continue
		}
		from, to := l.bounds(g, c.tenants)
		config := &partitionapi.DataPartitionConfig{
			ObjectMeta: metav1.ObjectMeta{Name: name}, ServiceGroupID: fmt.Sprint(g),
		}
		if g > 0 {
			config.RangeStart, config.IsRangeStartValid = tenantName(from), true
		}
		if g < l.groups-1 {
			config.RangeEnd, config.IsRangeEndValid = tenantName(to), true
		}
		if _, err := client.Create(ctx, config, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("configuring group %d: %w", g, err)
		}
	}
	return nil
}

// follow has clients learn of the groups, once a server runs.
func (c *cluster) follow(ctx context.Context) error {
	client, err := partitionapi.NewClient(c.servers[0].Config, nil)
	if err != nil {
		return err
	}
	c.follows.Go(func() { _ = c.groups.Component(client).Run(ctx, func() {}) })
	return nil
}

// merged is an access that asks the servers of all groups, as programs of a4s do.
func (c *cluster) merged(access *rest.Config) *rest.Config {
	config := sides.Efficient(access)
	config.Wrap(c.groups.Wrap)
	return config
}
