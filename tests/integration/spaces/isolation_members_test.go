package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// otherTeam is a tenant with canaries of which the attacker is a member, too, and may do nothing there.
const otherTeam = "d"

// double is an attacker who is a member of a, where they have all rights, and of otherTeam.
type double struct {
	client *http.Client
	// answered is how many of their requests were answered in a, and short how many named no tenant.
	answered, short atomic.Int64
}

const doubleName = "oidc:mallory"

// newDouble plants what they must not get at in their other space.
func newDouble(t *testing.T, p *plane, of *provider, word string) *double {
	t.Helper()
	plant(t, p.tenant(t, otherTeam).client, "default", word)
	p.bind(t, "a", doubleName, "cluster-admin")
	client, err := rest.HTTPClientFor(p.bearer(of.token(t,
		map[string]any{"sub": strings.TrimPrefix(doubleName, "oidc:"), "tenant": []string{otherTeam, "a"}})))
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &double{client: client}
}

// bound gives them their rights in a back, and the guest theirs, which they may delete.
func (*double) bound(ctx context.Context, t *testing.T, p *plane, done <-chan struct{}) {
	cfg := rest.CopyConfig(p.Admin)
	cfg.Host += "/tenants/a"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	pace := time.NewTicker(time.Second)
	defer pace.Stop()
	for {
		// One that is there is enough, and a webhook of a may refuse another.
		_, _ = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "double"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: doubleName},
				{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: guestName}},
		}, metav1.CreateOptions{})
		select {
		case <-pace.C:
		case <-done:
			return
		}
	}
}

// choose addresses a request to one of their spaces, to another one, or to none.
func (g *attacker) choose(r *attack) {
	if g.chance(30) {
		r.instead(otherTeam)
	}
	at := pick(g, "/tenants/a", "/tenants/a", "/tenants/a", "/tenants/a", "/tenants/"+otherTeam, "/tenants/"+otherTeam,
		"/tenants/"+otherTeam, "/tenants/b", "/tenants/system", "/tenants/all",
		"/tenants/a%2ctenants%2f"+otherTeam, "")
	r.url = g.host + at + strings.TrimPrefix(r.url, g.host)
}

// send sends it as them.
func (d *double) send(ctx context.Context, g *attacker, r *attack) (int, []byte) {
	g.choose(r)
	code, answer := r.send(ctx, d.client)
	switch {
	case code == http.StatusOK && strings.HasPrefix(r.url, g.host+"/tenants/a/"):
		d.answered.Add(1)
	case code == http.StatusBadRequest && strings.Contains(string(answer), "(a, "+otherTeam+")"):
		d.short.Add(1)
	}
	return code, answer
}

func (d *double) enough(total int) bool {
	return d.answered.Load() >= int64(total)/1000 && d.short.Load() >= int64(total)/1000
}

// check says whether enough was tried.
func (d *double) check(t *testing.T, total int) {
	t.Helper()
	t.Logf("%d requests of a member of two tenants were answered in one, %d named none", d.answered.Load(),
		d.short.Load())
	if !d.enough(total) {
		t.Errorf("too few: the test does not test them")
	}
}
