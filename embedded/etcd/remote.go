package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// lookEvery is how often members are asked how they are, and who they are.
	lookEvery = 3 * time.Second
	// lookTimeout bounds one answer.
	lookTimeout = 3 * time.Second
	// failuresToLeave is how often in a row a member has to fail before connections
	// to it are ended, if another one answers.
	failuresToLeave = 2
)

// RemoteOptions configures a Remote.
type RemoteOptions struct {
	// File keeps where the members are.
	File string
	// CAFile, CertFile and KeyFile are of a client of the members.
	CAFile, CertFile, KeyFile string
	Log                       *logrus.Entry
}

// Remote is the embedded etcd of other servers. Clients in this process reach it at the
// port of a member of their own, from where bytes go to a member that answers; which
// there are is followed, and kept for the next start.
type Remote struct {
	relay
	o RemoteOptions

	mu      sync.Mutex
	members []Member
	cluster uint64
	room    Room
	clients map[string]*clientv3.Client // by URL
}

// NewRemote returns a Remote that is not started yet. It knows the members that it has
// on file.
func NewRemote(o RemoteOptions) (*Remote, error) {
	r := &Remote{o: o, clients: map[string]*clientv3.Client{}}
	r.relay.log = o.Log
	k, err := readRemote(o.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, &problem.Precondition{What: o.File, Err: err,
			Fix: "remove the file: with --server and --token the members are asked for again"}
	default:
		r.relay.replace(k.Members)
	}
	return r, nil
}

// remoteFile is what is on disk.
type remoteFile struct {
	// Members are the client URLs.
	Members []string `json:"members"`
}

func readRemote(path string) (remoteFile, error) {
	var k remoteFile
	data, err := os.ReadFile(path)
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(data, &k); err != nil {
		return k, err
	}
	for _, text := range k.Members {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" {
			return k, fmt.Errorf("%q is no member of a datastore", text)
		}
	}
	if len(k.Members) == 0 {
		return k, errors.New("it names no member of a datastore")
	}
	return k, nil
}

// Known reports whether the members were learned.
func (r *Remote) Known() bool { return len(r.relay.urls()) > 0 }

// Learn takes over the client URLs of the members that another server named.
func (r *Remote) Learn(urls []string) error {
	var reachable []string
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "127.0.0.1" {
			reachable = append(reachable, text)
		}
	}
	if len(reachable) == 0 {
		return errors.New("no member of the datastore can be reached from other machines")
	}
	return r.keep(reachable)
}

// keep makes these the members, here and on disk.
func (r *Remote) keep(urls []string) error {
	slices.Sort(urls)
	r.relay.replace(urls)
	data, err := json.MarshalIndent(remoteFile{Members: urls}, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.o.File), 0o700)
	}
	if err == nil {
		err = atomicfile.Update(r.o.File, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing where the datastore is: %w", err)
	}
	return nil
}

// ClientURL is where clients in this process reach the datastore.
func (r *Remote) ClientURL() string { return fmt.Sprintf("https://127.0.0.1:%d", ClientPort) }

// Component returns what carries the connections. It is ready when the datastore
// answers, however long that takes.
func (r *Remote) Component() component.Component {
	return component.Component{Name: "datastore", Critical: true, Run: r.run}
}

func (r *Remote) run(ctx context.Context, ready func()) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", ClientPort))
	if err != nil {
		return &problem.Precondition{What: fmt.Sprintf("port %d on 127.0.0.1 (datastore)", ClientPort), Err: err,
			Fix: "stop the process that holds it"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.relay.accept(ctx, listener)
	}()
	defer func() {
		_ = listener.Close() // Accept reports it
		<-done
		r.relay.end()
		r.forget(nil)
	}()
	warn := time.AfterFunc(patience, func() {
		r.o.Log.Warnf("The datastore does not answer at %s: most of the servers with a member of it have to run. "+
			"If all have other addresses now, remove %s: they are asked for again",
			strings.Join(r.relay.urls(), ", "), r.o.File)
	})
	defer warn.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for first := true; ; {
		good, err := r.look(ctx)
		if err != nil {
			return err
		}
		if good && first {
			first = false
			warn.Stop()
			ready()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// errOther means that the members are of another cluster than before.
var errOther = errors.New("the datastore was restored from a snapshot or begun anew: " +
	"this server has to start again, because it remembers what was there before")

// look asks all members how they are, and one of those that answer who they are.
func (r *Remote) look(ctx context.Context) (good bool, err error) {
	urls := r.relay.urls()
	type answer struct {
		url  string
		v    view
		room Room
		err  error
	}
	answers := make(chan answer, len(urls))
	for _, u := range urls {
		go func() {
			v, room, err := r.ask(ctx, u)
			answers <- answer{u, v, room, err}
		}()
	}
	var v view
	var room Room
	for range urls {
		a := <-answers
		if ctx.Err() != nil {
			continue // it was not asked to the end
		}
		r.relay.report(a.url, a.err)
		if a.err == nil {
			v, good = a.v, true
			if a.room.Percent() >= room.Percent() || a.room.Full {
				room = a.room
			}
		}
	}
	if !good || ctx.Err() != nil {
		return false, nil
	}
	return true, r.take(v, room)
}

// take takes over what a member says.
func (r *Remote) take(v view, room Room) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster != 0 && r.cluster != v.cluster {
		return errOther
	}
	r.cluster, r.members, r.room = v.cluster, v.members, room
	voters := slices.DeleteFunc(slices.Clone(v.members), func(m Member) bool { return m.Learner })
	urls := clientURLs(voters)
	slices.Sort(urls)
	if len(urls) == 0 || slices.Equal(urls, r.relay.urls()) {
		return nil
	}
	r.o.Log.WithField("members", strings.Join(urls, " ")).Info("The datastore has these members")
	r.forget(urls)
	if err := r.keep(urls); err != nil {
		r.o.Log.WithError(err).Warn("The next start may look for the datastore where it is not any more")
	}
	return nil
}

// ask asks one member. That it reads says that most of the others are there, too.
func (r *Remote) ask(ctx context.Context, member string) (v view, room Room, err error) {
	c, err := r.client(member)
	if err != nil {
		return v, room, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if v, err = list(ctx, c); err != nil {
		return v, room, err
	}
	if _, err := c.Get(ctx, "health"); err != nil {
		return v, room, err
	}
	status, err := c.Status(ctx, member)
	if err != nil {
		return v, room, err
	}
	room = Room{Size: status.DbSize, InUse: status.DbSizeInUse, Quota: status.DbSizeQuota}
	room.Full = slices.ContainsFunc(status.Errors, func(text string) bool {
		return strings.Contains(text, etcdserverpb.AlarmType_NOSPACE.String())
	})
	return v, room, nil
}

// client is one of a member, kept until it leaves.
func (r *Remote) client(member string) (*clientv3.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[member]; c != nil {
		return c, nil
	}
	c, err := r.dial([]string{member})
	if err == nil {
		r.clients[member] = c
	}
	return c, err
}

func (r *Remote) dial(members []string) (*clientv3.Client, error) {
	tls, err := transport.TLSInfo{CertFile: r.o.CertFile, KeyFile: r.o.KeyFile,
		TrustedCAFile: r.o.CAFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the datastore's clients: %w", err)
	}
	return clientv3.New(clientv3.Config{Endpoints: members, TLS: tls, DialTimeout: askTimeout, Logger: zap.NewNop()})
}

// forget closes the clients of all members but these. r.mu is held unless nothing runs.
func (r *Remote) forget(but []string) {
	for member, c := range r.clients {
		if !slices.Contains(but, member) {
			_ = c.Close()
			delete(r.clients, member)
		}
	}
}

// Check does what can be done before anything is written: nothing.
func (r *Remote) Check(context.Context) error { return nil }

// Room is how full the member with the least room is.
func (r *Remote) Room() Room {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room
}

// Members are those of the cluster as they were last seen.
func (r *Remote) Members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.members)
}

// RemoveMember takes a member out of the cluster, see repeatRemoval.
func (r *Remote) RemoveMember(ctx context.Context, id uint64) error {
	c, err := r.dial(r.relay.urls())
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the change was answered
	return repeatRemoval(ctx, func(ctx context.Context) error {
		_, err := c.MemberRemove(ctx, id)
		return err
	})
}
