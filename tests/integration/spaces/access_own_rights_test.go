package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// rights lets a user of tenant a do something in a namespace, or in all of the space.
func (d *ownAccess) rights(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	of := metav1.ObjectMeta{GenerateName: "rights-"}
	role, err := d.a.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: of,
		Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	if namespace == "" {
		_, err = d.a.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: of, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = d.a.client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: of, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func can(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verb, ","), APIGroups: []string{group},
		Resources: strings.Split(resource, ","), ResourceNames: names}
}

// given lets a user of tenant a do one thing after the other, and has an access refused for the lack of each.
func (d *ownAccess) given(t *testing.T, user string, spec tenantapi.TenantAccessSpec, steps []step) {
	t.Helper()
	who := d.user(t, user, []string{"tenant:a"}, nil)
	for _, s := range steps {
		eventually(t, user+" to be refused for "+s.refusal, func(context.Context) (bool, error) {
			err := d.makes(t, who, user, spec)
			if !apierrors.IsForbidden(err) {
				return false, fmt.Errorf("it is not refused: %w", err)
			}
			return strings.Contains(err.Error(), s.refusal), nil
		})
		refused(t, user, d.makes(t, who, user, spec), s.refusal)
		d.rights(t, user, s.namespace, s.rules...)
	}
	eventually(t, user+" to make it", func(context.Context) (bool, error) {
		err := d.makes(t, who, user, spec)
		return err == nil, ignoreForbidden(err)
	})
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// step is a right that somebody lacks, and how they get it.
type step struct {
	refusal, namespace string
	rules              []rbacv1.PolicyRule
}

func (d *ownAccess) testRights(t *testing.T) {
	makes := step{"cannot create resource \"tenantaccesses\"", "", []rbacv1.PolicyRule{
		can("get,create,update,patch", "", "tenantaccesses")}}
	user := ownSpec("robot", "view", "by-user")
	user.Groups = []string{"robots"}
	d.given(t, "maker", user, []step{makes,
		{"the right to impersonate the user robot", "", []rbacv1.PolicyRule{can("impersonate", "", "users", "robot")}},
		{"the right to impersonate the group robots", "", []rbacv1.PolicyRule{can("impersonate", "", "groups")}},
		{"the right to create secrets in the namespace default", "default",
			[]rbacv1.PolicyRule{can("create", "", "secrets")}},
		{"the right to create clusterrolebindings", "",
			[]rbacv1.PolicyRule{can("create", rbacv1.GroupName, "clusterrolebindings")}},
		{"the right to bind the ClusterRole view, or all that it gives", "",
			[]rbacv1.PolicyRule{can("bind", rbacv1.GroupName, "clusterroles", "view")}},
	})
	d.await(t, "maker", tenantapi.ReasonIssued)

	if _, err := d.a.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reads"},
		Rules:      []rbacv1.PolicyRule{can("get,list", "", "configmaps")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := ownSpec("", "reads", "by-account")
	account.ServiceAccount = &tenantapi.AccessAccount{Namespace: "default", Name: "deployer"}
	account.Namespace = "default"
	d.given(t, "holder", account, []step{makes,
		{"the right to create serviceaccounts/token of deployer in the namespace default", "default",
			[]rbacv1.PolicyRule{can("create", "", "serviceaccounts/token", "deployer")}},
		{"the right to create secrets in the namespace default", "default",
			[]rbacv1.PolicyRule{can("create", "", "secrets")}},
		{"the right to create rolebindings in the namespace default", "default",
			[]rbacv1.PolicyRule{can("create", rbacv1.GroupName, "rolebindings")}},
		// They need no right to bind what they have themselves.
		{"the right to bind the ClusterRole reads, or all that it gives", "default",
			[]rbacv1.PolicyRule{can("get,list", "", "configmaps")}},
	})
	d.await(t, "holder", tenantapi.ReasonIssued)
}

// testChanges: who made it with rights that they have cannot make more of it, by whichever verb.
func (d *ownAccess) testChanges(t *testing.T) {
	for user, patches := range map[string]map[string]string{
		"maker": {
			`{"spec":{"role":"cluster-admin"}}`:                   "to bind the ClusterRole cluster-admin",
			`{"spec":{"namespace":"default"}}`:                    "to create rolebindings in the namespace default",
			`{"spec":{"user":"boss"}}`:                            "it cannot be changed",
			`{"spec":{"groups":["robots","bosses"]}}`:             "it cannot be changed",
			`{"spec":{"secret":{"namespace":"kube-system"}}}`:     "it cannot be changed",
			`{"metadata":{"labels":{"a":"b"}}}`:                   "",
			`{"spec":{"expirationSeconds":3600}}`:                 "",
			`{"spec":{"expirationSeconds":86401,"role":"view"}}`:  "must be at most 86400",
			`{"spec":{"tenant":"b"}}`:                             "leave it out",
			`{"spec":{"tenant":"a"}}`:                             "",
			`{"spec":{"serviceAccount":{"namespace":"default"}}}`: "spec.serviceAccount",
		},
		"holder": {
			`{"spec":{"role":"edit"}}`:                     "to bind the ClusterRole edit",
			`{"spec":{"namespace":null}}`:                  "to create clusterrolebindings",
			`{"spec":{"namespace":"kube-system"}}`:         "rolebindings in the namespace kube-system",
			`{"spec":{"serviceAccount":{"name":"other"}}}`: "it cannot be changed",
		},
	} {
		who := d.user(t, user, []string{"tenant:a"}, nil)
		for patch, refusal := range patches {
			code, answer := do(t, who, http.MethodPatch, ownAccesses+"/"+user, patch,
				[]string{"Content-Type: " + mergePatch})
			if refusal == "" && code != http.StatusOK || refusal != "" && (code < 400 ||
				!strings.Contains(answer, refusal)) {
				t.Errorf("%s: %s: %d %s", user, patch, code, answer)
			}
		}
	}
	body := `{"apiVersion":"v1","kind":"TenantAccess","metadata":{"name":"applied"},"spec":{"user":"boss",` +
		`"role":"view","secret":{"namespace":"default","name":"applied"}}}`
	who := d.user(t, "maker", []string{"tenant:a"}, nil)
	code, answer := do(t, who, http.MethodPatch, ownAccesses+"/applied?fieldManager=x", body,
		[]string{"Content-Type: application/apply-patch+yaml"})
	if code != http.StatusForbidden || !strings.Contains(answer, "to impersonate the user boss") {
		t.Errorf("by server-side apply: %d %s", code, answer)
	}
	// Labels and annotations can be changed by who has the right to the kind alone.
	d.rights(t, "labeller", "", can("get,patch", "", "tenantaccesses"))
	who = d.user(t, "labeller", []string{"tenant:a"}, nil)
	for patch, want := range map[string]int{
		`{"metadata":{"labels":{"c":"d"}}}`:                   http.StatusOK,
		`{"spec":{"expirationSeconds":7200}}`:                 http.StatusForbidden,
		`{"spec":{"expires":"2099-01-01T00:00:00Z"}}`:         http.StatusForbidden,
		`{"spec":{"secret":{"labels":{"app":"web"}}}}`:        http.StatusForbidden,
		`{"spec":{"server":"https://elsewhere.example.com"}}`: http.StatusForbidden,
	} {
		eventually(t, "the answer to "+patch, func(context.Context) (bool, error) {
			code, answer := do(t, who, http.MethodPatch, ownAccesses+"/maker", patch,
				[]string{"Content-Type: " + mergePatch})
			return code == want && (want == http.StatusOK || strings.Contains(answer, "who makes or changes it")), nil
		})
	}
}

// testNoRole: a role that is not there can be bound by those alone who may bind it whatever it will give.
func (d *ownAccess) testNoRole(t *testing.T) {
	d.rights(t, "early", "", can("create", "", "tenantaccesses,secrets"), can("impersonate", "", "users"),
		can("create", rbacv1.GroupName, "clusterrolebindings"))
	who := d.user(t, "early", []string{"tenant:a"}, nil)
	eventually(t, "the refusal", func(context.Context) (bool, error) {
		err := d.makes(t, who, "early", ownSpec("robot", "later", "early"))
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "there is no ClusterRole later"), nil
	})
	d.give(t, "later", ownSpec("robot", "later", "later"))
	got := d.await(t, "later", tenantapi.ReasonNotIssued)
	if c := got.Status.Conditions[0]; !strings.Contains(c.Message, "there is no ClusterRole later in the space a") {
		t.Errorf("%+v", c)
	}
	d.remove(t, "later")
}
