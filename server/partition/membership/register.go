package membership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// ErrRemoved is a partition that an operator took out of the cluster.
var ErrRemoved = errors.New("it was removed from the cluster, and does not come back")

// Register is the register of partitions, in the home partition.
type Register struct {
	client *partitionapi.PartitionClient
	// own is what this server says of the home partition.
	own joinapi.PartitionRequest
}

// NewRegister makes the register.
func NewRegister(client *partitionapi.PartitionClient, own joinapi.PartitionRequest) *Register {
	return &Register{client: client, own: own}
}

// Add registers a server, and its partition if that is not there: it is new, or this one was
// restored from a snapshot that is older. Refusals are errors of the API, or ErrRemoved.
func (r *Register) Add(ctx context.Context, req joinapi.PartitionRequest) error {
	switch {
	case req.Name == partitionapi.Home:
		return conflict(req.Name, "the home partition has this name")
	case req.Identity == "":
		return conflict(req.Name, "it does not say which one it is")
	}
	home, err := r.client.Get(ctx, partitionapi.Home, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		// Until there is another partition, a cluster has no use for a directory.
		if err := r.put(ctx, r.own); err != nil {
			return fmt.Errorf("registering the home partition: %w", err)
		}
	case err != nil:
		return fmt.Errorf("reading which partitions were removed: %w", err)
	default:
		if was, ok := home.Spec.HasRemoved(req.Identity); ok {
			return fmt.Errorf("partition %s, at %s: %w", was.Name, was.At.UTC().Format(time.RFC3339), ErrRemoved)
		}
	}
	return r.put(ctx, req)
}

// Own puts this server among those of the home partition, which is registered, and takes out
// those that are gone.
func (r *Register) Own(ctx context.Context, gone []joinapi.PartitionServer) error {
	own := r.own
	own.Gone = gone
	return r.put(ctx, own)
}

func (r *Register) put(ctx context.Context, req joinapi.PartitionRequest) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		p, err := r.client.Get(ctx, req.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = r.client.Create(ctx, newPartition(req), metav1.CreateOptions{})
			if !apierrors.IsAlreadyExists(err) {
				return err
			}
			return r.put(ctx, req) // another server of it came first
		case err != nil:
			return err
		}
		if req.Name != partitionapi.Home {
			if err := same(p, req); err != nil {
				return err
			}
		}
		if !take(p, req) {
			return nil
		}
		_, err = r.client.Update(ctx, p, metav1.UpdateOptions{})
		return err
	})
}

// take has a registered partition say what one of its servers says, and reports whether that is
// anything new.
func take(p *partitionapi.Partition, req joinapi.PartitionRequest) bool {
	changed := setServer(p, req)
	// Servers that joined it afterwards have nothing to say of that.
	if req.Restored > p.Spec.Restored {
		p.Spec.Restored, changed = req.Restored, true
	}
	// Who says it last has started last, with what all are to have. Who takes out others says it
	// as well, and may run with the former one.
	if len(req.Gone) == 0 && req.NodePortRange != "" && req.NodePortRange != p.Spec.NodePortRange {
		p.Spec.NodePortRange, changed = req.NodePortRange, true
	}
	return changed
}

func newPartition(req joinapi.PartitionRequest) *partitionapi.Partition {
	p := &partitionapi.Partition{
		ObjectMeta: metav1.ObjectMeta{Name: req.Name},
		Spec: partitionapi.PartitionSpec{Identity: req.Identity, ServiceCIDR: req.ServiceCIDR,
			ClusterCIDR: req.ClusterCIDR, NodePortRange: req.NodePortRange, ClusterDNS: req.ClusterDNS,
			Restored: req.Restored},
	}
	for _, role := range req.Roles {
		p.Spec.Roles = append(p.Spec.Roles, partitionapi.Role(role))
	}
	setServer(p, req)
	return p
}

// same refuses another partition of a name, and another configuration of the same one.
func same(p *partitionapi.Partition, req joinapi.PartitionRequest) error {
	want := newPartition(req)
	switch {
	case p.Spec.Identity != req.Identity:
		return conflict(p.Name, "another partition of the cluster has this name already")
	case !slices.Equal(p.Spec.Roles, want.Spec.Roles):
		return conflict(p.Name, fmt.Sprintf("it was registered with the roles %v", p.Spec.Roles))
	case p.Spec.ServiceCIDR != req.ServiceCIDR:
		return conflict(p.Name, "it was registered with --service-cidr "+p.Spec.ServiceCIDR)
	case p.Spec.ClusterCIDR != req.ClusterCIDR:
		return conflict(p.Name, "it was registered with --cluster-cidr "+p.Spec.ClusterCIDR)
	}
	return nil
}

func conflict(name, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict,
		Reason: metav1.StatusReasonAlreadyExists, Message: "partition " + name + ": " + text}}
}

// setServer puts a server into the list, takes out those that it says are gone, and reports
// whether that changed the list.
func setServer(p *partitionapi.Partition, req joinapi.PartitionRequest) bool {
	s := partitionapi.PartitionServer{Name: req.Server, Address: req.Address}
	before := len(p.Spec.Servers)
	p.Spec.Servers = slices.DeleteFunc(p.Spec.Servers, func(o partitionapi.PartitionServer) bool {
		return o != s && slices.Contains(req.Gone, joinapi.PartitionServer{Server: o.Name, Address: o.Address})
	})
	if slices.Contains(p.Spec.Servers, s) {
		return len(p.Spec.Servers) != before
	}
	// A machine that was given another name, or a name that moved to another machine.
	p.Spec.Servers = slices.DeleteFunc(p.Spec.Servers, func(o partitionapi.PartitionServer) bool {
		return o.Name == s.Name || o.Address == s.Address
	})
	p.Spec.Servers = append(p.Spec.Servers, s)
	return true
}
