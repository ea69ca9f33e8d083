package spaces_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestSeedDefaultTenant is the section "Default Tenant" of the seed: the
// tenant is made if it does not exist, and is that of users who name none.
// Static tokens name theirs in a column of their own.
func TestSeedDefaultTenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("token-nobody,nora,1,\"system:masters\"\ntoken-of-b,bert,2,\"devs,"+
		"system:masters\",b\ntoken-of-system,root,3,\"system:masters\",system\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, func(cfg *config.Server) {
		cfg.DefaultTenant = "dev"
		// Upstream takes underscores for dashes, and reads no tenants itself.
		cfg.KubeAPIServerArgs = []string{"token_auth_file=" + tokens}
	})
	p.tenant(t, "b")
	user := func(token string) *space {
		cfg := rest.AnonymousClientConfig(p.Admin)
		cfg.BearerToken, cfg.QPS = token, -1
		return p.as(t, "", cfg)
	}
	nora, bert, root := user("token-nobody"), user("token-of-b"), user("token-of-system")
	eventually(t, "the default tenant can be used", func(ctx context.Context) (bool, error) {
		_, err := nora.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	for who, c := range map[*space]struct{ name, tenant string }{nora: {"nora", "dev"}, bert: {"bert", "b"}} {
		me, err := who.client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || me.Status.UserInfo.Username != c.name {
			t.Errorf("%s: %+v, %v", c.name, me, err)
		}
		if code, body := get(t, who.config, "/api/v1/namespaces/default"); code != http.StatusOK ||
			!strings.Contains(body, `"tenant":"`+c.tenant+`"`) {
			t.Errorf("%s: %d %.300s", c.name, code, body)
		}
		if code, _ := get(t, who.config, "/api/v1/tenantplacements"); code != http.StatusForbidden {
			t.Errorf("%s lists what is the system's: %d", c.name, code)
		}
	}
	if code, _ := get(t, nora.config, "/api/v1/tenants/b/namespaces/default"); code != http.StatusForbidden {
		t.Errorf("nora in b: %d", code)
	}
	if code, _ := get(t, root.config, "/api/v1/nodes"); code != http.StatusOK {
		t.Errorf("a token of the system: %d", code)
	}
}
