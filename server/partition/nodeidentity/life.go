package nodeidentity

import (
	"context"
	"errors"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

func nodeName(u user.Info) string { return strings.TrimPrefix(u.GetName(), pki.NodeUserPrefix) }

// life is the one that the certificate of a node says, "" for none. Of one that says several
// none is good.
func life(u user.Info) string { return strings.Join(u.GetExtra()[pki.NodeLife], ",") }

// Alive returns why the certificate of a life of a node is not good any more. Of a node of
// another partition the copy says so.
func (g *Guard) Alive(node, life string) error {
	if g.o.Several() {
		if g.synced == nil || !g.synced() {
			return errNotYet
		}
		n, err := g.nodes.Get(node)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			if _, copied := n.Labels[nodecopies.Label]; copied {
				if mark, marked := n.Annotations[pki.NodeLife]; marked && !nodelife.GoodBy(mark, life) {
					return nodelife.ErrDead
				}
				return nil
			}
		}
	}
	if g.o.Alive == nil {
		return nil
	}
	return g.o.Alive(node, life)
}

// holds are the requests of nodes that are being answered.
type holds struct {
	mu  sync.Mutex
	all map[string]map[*hold]bool // by the name of the node
}

type hold struct {
	life string
	end  context.CancelCauseFunc
}

// Hold returns a context that ends when the certificate of the node dies.
func (g *Guard) Hold(ctx context.Context, node, life string) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	h := &hold{life, end}
	g.holds.mu.Lock()
	if g.holds.all == nil {
		g.holds.all = map[string]map[*hold]bool{}
	}
	if g.holds.all[node] == nil {
		g.holds.all[node] = map[*hold]bool{}
	}
	g.holds.all[node][h] = true
	g.holds.mu.Unlock()
	if errors.Is(g.Alive(node, life), nodelife.ErrDead) { // since it was asked
		end(nodelife.ErrDead)
	}
	return ctx, func() {
		g.holds.mu.Lock()
		delete(g.holds.all[node], h)
		if len(g.holds.all[node]) == 0 {
			delete(g.holds.all, node)
		}
		g.holds.mu.Unlock()
		end(nil)
	}
}

// Look ends what a node is being told if its certificate has died.
func (g *Guard) Look(node string) {
	g.holds.mu.Lock()
	defer g.holds.mu.Unlock()
	for h := range g.holds.all[node] {
		if errors.Is(g.Alive(node, h.life), nodelife.ErrDead) {
			h.end(nodelife.ErrDead)
		}
	}
}

// changed looks at a node whose mark is another.
func (g *Guard) changed(before, now any) {
	was, ok := before.(*corev1.Node)
	is, ok2 := now.(*corev1.Node)
	if ok && ok2 && was.Annotations[pki.NodeLife] != is.Annotations[pki.NodeLife] {
		g.Look(is.Name)
	}
}
