package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/addons/ingress"
	"github.com/a4s-io/a4s/server/addons/networkpolicy"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition/nodeidentity"
)

const (
	// maxInFlight bounds the join requests that are served at once.
	maxInFlight = 20
	// storeTimeout bounds the use of the API within one request.
	storeTimeout = 10 * time.Second
	// bodyTimeout bounds how long a client may take to send its body.
	bodyTimeout = 20 * time.Second
)

// Options is what a Supervisor works with. All fields without a remark are
// needed.
type Options struct {
	// ServerCA and ClientCA sign the certificates of nodes.
	ServerCA *pki.CA
	ClientCA *pki.CA
	// Tokens are the server and agent token.
	Tokens *jointoken.ServerTokens
	// Secrets reaches the Secrets of kube-system, see NewSecrets.
	Secrets Secrets
	// Config is what nodes are told about the cluster.
	Config joinapi.ClusterConfig
	// Status returns the state of this server process.
	Status func() joinapi.ServerStatus
	// TenantUse returns what tenants have used of this server.
	TenantUse func() joinapi.TenantUse

	// Renew renews all certificates of this server.
	Renew func(ctx context.Context) ([]string, error)

	// CAs replaces the CAs of all servers.
	CAs func(ctx context.Context, req joinapi.CAsRequest) (*joinapi.CAsResponse, error)

	// Encryption changes how Secrets are stored.
	Encryption Encryption

	// Bundle returns what another server needs to join.
	Bundle func() (*joinapi.ServerBundle, error)
	// Partitions registers a server of another partition, and that partition if it is not
	// there; PartitionBundle is what a new one needs. They are nil outside the home partition.
	Partitions      func(ctx context.Context, req joinapi.PartitionRequest) error
	PartitionBundle func() (*joinapi.PartitionBundle, error)
	// Partition is that of the server, "" for the home partition. Nodes judges the
	// certificates of nodes; nil believes all.
	Partition string
	Nodes     NodeJudge
	// Lives are the records of nodes, and Registered finds a Node: the addresses in it, and
	// whether it is there. Without them nothing is kept of nodes but their passwords.
	Lives      Lives
	Registered func(ctx context.Context, node string) (addresses []string, there bool, err error)
	// KnownPartitions are those of the cluster, for nodes; changed is closed when they may
	// be others. It is false while nothing is known. Without it nodes are told nothing.
	KnownPartitions func() (known joinapi.Partitions, changed <-chan struct{}, ok bool)
	// PartitionStates is how the partitions of the cluster are; without it nobody is told.
	PartitionStates func(context.Context) []joinapi.PartitionState
	// Members lists the members of the datastore, RemoveMember removes one by
	// its name or ID. ErrNoMember and ErrLastMember are answers of it.
	Members      func() []joinapi.Member
	RemoveMember func(ctx context.Context, member string) error
	// ServerSANs are names and addresses of the other servers, which belong to
	// ReservedSANs; optional.
	ServerSANs func() []string

	// Addresses are the pods' addresses; without them, nodes are not told.
	Addresses *Addresses
	// Policies resolves network policies; without it, nodes learn that
	// there are none to enforce.
	Policies *networkpolicy.Controller
	// Ingress knows where requests for Ingresses go; without it, nodes take none.
	Ingress *ingress.Controller

	// Volumes are the local volumes; without them, nodes have none.
	Volumes Volumes

	// LocalNode is the node of this machine, in this process or in another.
	// Only it may have a serving certificate for ReservedSANs, and it needs
	// the server token.
	LocalNode string
	// ReservedSANs are the names and addresses of the API server.
	ReservedSANs []string

	// Log is optional.
	Log *logrus.Entry
	// Now replaces the clock; optional.
	Now func() time.Time
}

// Lives keep what is known of nodes.
type Lives interface {
	// Change changes the record of a node, which may not be there, and returns what it is then.
	Change(
		ctx context.Context, node string, change func(record *nodelife.Record, there bool) error,
	) (nodelife.Record, error)
	// Known reports whether a node has one.
	Known(node string) (bool, error)
	// Mark writes on the Node, if it is there, what other partitions have to know of it.
	Mark(ctx context.Context, node string, record nodelife.Record) error
	// Revoke ends all certificates of a node.
	Revoke(ctx context.Context, node string) error
}

// NodeJudge knows which partition a node is of.
type NodeJudge interface {
	// Alive returns why the certificate of a life of a node, "" for none, is not good any more.
	Alive(node, life string) error
	// Hold returns a context that ends with that life, and what ends it when it is done with.
	Hold(ctx context.Context, node, life string) (context.Context, context.CancelFunc)
	// Check returns why the certificate of a node with these groups is not good here.
	Check(node string, groups []string) error
	// Own returns why a certificate with these groups is not of a node of this partition.
	Own(groups []string) error
	// Elsewhere is the other partition that is known to have a node, "" for none.
	Elsewhere(ctx context.Context, node string) (partition string)
}

// Supervisor serves the paths of package join.
type Supervisor struct {
	opts  Options
	slots chan struct{}

	clients authenticator
	nodes   nodes
	streams streams
	volumes volumes
}

// New returns a supervisor.
func New(opts Options) *Supervisor {
	if opts.Log == nil {
		opts.Log = logrus.WithField("component", "supervisor")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Supervisor{
		opts: opts, slots: make(chan struct{}, maxInFlight),
		clients: authenticator{tokens: opts.Tokens, clientCA: opts.ClientCA, secrets: opts.Secrets, now: opts.Now},
		nodes: nodes{
			serverCA: opts.ServerCA, clientCA: opts.ClientCA, secrets: opts.Secrets, localNode: opts.LocalNode,
			reservedSANs: opts.ReservedSANs, serverSANs: opts.ServerSANs,
			serviceCIDR: opts.Config.ServiceCIDR, partition: opts.Partition, log: opts.Log,
			lives: opts.Lives, registered: opts.Registered,
		},
		streams: streams{addresses: opts.Addresses, policies: opts.Policies, ingress: opts.Ingress, log: opts.Log},
		volumes: volumes{volumes: opts.Volumes, log: opts.Log},
	}
	if opts.Nodes != nil {
		s.nodes.elsewhere = opts.Nodes.Elsewhere
	}
	return s
}

// endpoint is one path: its method, who may use it and what it does.
type endpoint struct {
	method string
	// open endpoints need no credential.
	open bool
	// admin endpoints need a client certificate of an administrator, the
	// others one of a join token or of a node.
	admin bool
	// server endpoints need the server token.
	server bool
	// partition endpoints take the certificate of another partition instead.
	partition bool
	// stream endpoints are for the certificates of nodes only, and may last.
	stream bool
	serve  func(w http.ResponseWriter, r *http.Request, who identity) error
}

// Handler serves the supervisor's paths and hands every other request to
// next.
func (s *Supervisor) Handler(next http.Handler) http.Handler {
	endpoints := map[string]endpoint{
		joinapi.PathPing:            {method: http.MethodGet, open: true, serve: s.ping},
		joinapi.PathCACerts:         {method: http.MethodGet, open: true, serve: s.caCerts},
		joinapi.PathConfig:          {method: http.MethodGet, serve: s.config},
		joinapi.PathNode:            {method: http.MethodPost, serve: s.nodes.node},
		joinapi.PathStatus:          {method: http.MethodGet, admin: true, serve: s.status},
		joinapi.PathTenantUse:       {method: http.MethodGet, admin: true, serve: s.tenantUse},
		joinapi.PathPartitionStates: {method: http.MethodGet, admin: true, serve: s.partitionStates},
		joinapi.PathPacketFilter:    {method: http.MethodGet, stream: true, serve: s.streams.packetFilter},
		joinapi.PathPodAddresses:    {method: http.MethodGet, stream: true, serve: s.streams.podAddresses},
		joinapi.PathIngress:         {method: http.MethodGet, stream: true, serve: s.streams.ingresses},
		joinapi.PathNetworkPolicies: {method: http.MethodGet, stream: true, serve: s.streams.networkPolicies},
		joinapi.PathPartitions:      {method: http.MethodGet, stream: true, serve: s.partitions},
		joinapi.PathCertificates:    {method: http.MethodPost, admin: true, serve: s.certificates},
		joinapi.PathCAs:             {method: http.MethodPost, admin: true, serve: s.authorities},
		joinapi.PathToken:           {method: http.MethodPut, admin: true, serve: s.token},
		joinapi.PathRevokeNode:      {method: http.MethodPost, admin: true, serve: s.nodes.revoke},

		joinapi.PathEncryption:      {method: http.MethodGet, admin: true, serve: s.encryption},
		joinapi.PathEncryptionStart: {method: http.MethodPost, admin: true, serve: s.startEncryption},
		joinapi.PathLocalVolumes:    {method: http.MethodGet, stream: true, serve: s.volumes.localVolumes},
		joinapi.PathLocalVolumeDone: {method: http.MethodPost, stream: true, serve: s.volumes.localVolumeDone},

		joinapi.PathServer:       {method: http.MethodGet, server: true, serve: s.server},
		joinapi.PathPartition:    {method: http.MethodPost, server: true, partition: true, serve: s.partition},
		joinapi.PathMembers:      {method: http.MethodGet, admin: true, serve: s.members},
		joinapi.PathRemoveMember: {method: http.MethodPost, admin: true, serve: s.removeMember},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ours := endpoints[r.URL.Path]
		if !ours && !strings.HasPrefix(r.URL.Path, joinapi.Prefix) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		if err := s.dispatch(w, r, e, ours); err != nil {
			s.refuse(w, r, err)
		}
	})
}

func (s *Supervisor) dispatch(w http.ResponseWriter, r *http.Request, e endpoint, found bool) error {
	if !found {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+r.URL.Path)
	}
	if r.Method != e.method && (r.Method != http.MethodHead || e.method != http.MethodGet) {
		w.Header().Set("Allow", e.method)
		return refusal(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			r.URL.Path+" takes "+e.method+" only")
	}
	if e.open {
		return e.serve(w, r, identity{})
	}
	if !e.admin && !e.stream { // administrators get through an overload of nodes
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			return retryLater(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 5*time.Second,
				"too many nodes join at the same time", nil)
		}
	}
	who, err := s.clients.authenticate(r)
	if err != nil {
		return err
	}
	if e.admin != who.admin {
		want := "a join token or the certificate of a node"
		if e.admin {
			want = "the client certificate of an administrator (group " + pki.GroupMasters + ")"
		}
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			who.String()+" may not use "+r.URL.Path+", which needs "+want)
	}
	if who.partition != "" && !e.partition {
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			who.String()+" may not use "+r.URL.Path+", which is not for other partitions")
	}
	if e.server && !who.serverToken && who.partition == "" {
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			who.String()+" may not use "+r.URL.Path+", which needs the server token")
	}
	if e.stream && who.node == "" {
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			who.String()+" may not use "+r.URL.Path+", which needs the certificate of a node")
	}
	if err := s.judge(e, who); err != nil {
		return err
	}
	if who.node != "" && s.opts.Nodes != nil {
		ctx, done := s.opts.Nodes.Hold(r.Context(), who.node, who.life)
		defer done()
		r = r.WithContext(ctx)
	}
	return e.serve(w, r, who)
}

// judge refuses the certificate of a node that another partition has: all partitions share
// the CA that signed it. What is told of this partition is for every node that runs its
// pods, the rest for its own nodes.
func (s *Supervisor) judge(e endpoint, who identity) error {
	if who.node == "" || s.opts.Nodes == nil {
		return nil
	}
	err := s.opts.Nodes.Alive(who.node, who.life)
	if err == nil {
		err = s.opts.Nodes.Check(who.node, who.groups)
	}
	if err == nil && !e.stream {
		err = s.opts.Nodes.Own(who.groups)
	}
	switch {
	case errors.Is(err, nodelife.ErrDead):
		return errEnded()
	case nodeidentity.Refused(err):
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	case err != nil:
		return unavailable("judge the node", err)
	}
	return nil
}

func (s *Supervisor) ping(w http.ResponseWriter, _ *http.Request, _ identity) error {
	w.Header().Set("Content-Type", "text/plain")
	_, err := w.Write([]byte("pong"))
	return err
}

func (s *Supervisor) caCerts(w http.ResponseWriter, _ *http.Request, _ identity) error {
	w.Header().Set("Content-Type", "application/x-pem-file")
	_, err := w.Write(s.opts.ServerCA.CertPEM())
	return err
}

func (s *Supervisor) config(w http.ResponseWriter, _ *http.Request, _ identity) error {
	return reply(w, s.opts.Config)
}

// Refusals of Options.RemoveMember.
var (
	ErrNoMember   = errors.New("the datastore has no such member")
	ErrLastMember = errors.New("it is the only member of the datastore that votes")
)

func (s *Supervisor) members(w http.ResponseWriter, _ *http.Request, _ identity) error {
	var out joinapi.Members
	if s.opts.Members != nil {
		out.Members = s.opts.Members()
	}
	return reply(w, out)
}

func (s *Supervisor) removeMember(w http.ResponseWriter, r *http.Request, who identity) error {
	var req joinapi.MemberRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	err := ErrNoMember
	if s.opts.RemoveMember != nil {
		err = s.opts.RemoveMember(r.Context(), req.Member)
	}
	switch {
	case errors.Is(err, ErrNoMember):
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	case err != nil:
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, err.Error())
	}
	s.opts.Log.WithField("by", who.name).Infof("removed %s from the datastore", req.Member)
	return reply(w, struct{}{})
}

func (s *Supervisor) server(w http.ResponseWriter, r *http.Request, _ identity) error {
	if s.opts.Bundle == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "no other server can join this one")
	}
	bundle, err := s.opts.Bundle()
	if err != nil {
		return err
	}
	s.opts.Log.WithField("remote", r.RemoteAddr).Info("gave another server what it needs to join")
	return reply(w, bundle)
}

func (s *Supervisor) status(w http.ResponseWriter, _ *http.Request, _ identity) error {
	return reply(w, s.opts.Status())
}

func (s *Supervisor) tenantUse(w http.ResponseWriter, _ *http.Request, _ identity) error {
	use := s.opts.TenantUse()
	use.Server, use.Partition = s.opts.LocalNode, s.opts.Partition
	return reply(w, use)
}

func (s *Supervisor) token(w http.ResponseWriter, r *http.Request, who identity) error {
	var req joinapi.TokenRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	tok, err := s.opts.Tokens.Rotate(req.Which, req.Password)
	if err != nil {
		return inputOrInternal(err)
	}
	s.opts.Log.WithField("by", who.name).
		Infof("the %s token was replaced; nodes that join from now on need the new one", tok.User)
	return reply(w, joinapi.TokenResponse{Token: tok.Encode()})
}

func (s *Supervisor) certificates(w http.ResponseWriter, r *http.Request, who identity) error {
	// Half a renewal because the client went away helps nobody.
	replaced, err := s.opts.Renew(context.WithoutCancel(r.Context()))
	if err != nil {
		return err
	}
	s.opts.Log.WithField("by", who.name).Info("all certificates of this server were renewed")
	return reply(w, joinapi.CertificatesResponse{Renewed: replaced})
}

func (s *Supervisor) authorities(w http.ResponseWriter, r *http.Request, who identity) error {
	var req joinapi.CAsRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	// Every server follows what was written, whether the client waits or not.
	resp, err := s.opts.CAs(context.WithoutCancel(r.Context()), req)
	if err != nil {
		return explained(err)
	}
	s.opts.Log.WithField("by", who.name).Infof("the certificate authorities of the next start are others: %s",
		strings.Join(resp.Replaced, ", "))
	return reply(w, resp)
}

func reply(w http.ResponseWriter, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}

// readBody decodes the JSON body of r. Unknown fields are allowed: agents of
// a newer version may send more.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	// Best effort: not every ResponseWriter has deadlines, real servers do.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, joinapi.MaxBody)).Decode(into)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return refusal(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
			"the body is larger than 1 MiB")
	}
	return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest,
		"the body is not the JSON that is expected here: "+err.Error())
}
