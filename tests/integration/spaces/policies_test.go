package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const registration = "/apis/admissionregistration.k8s.io/v1/"

// post makes an object from JSON.
func post(t *testing.T, cfg *rest.Config, path, body string) {
	t.Helper()
	if code, answer := do(t, cfg, http.MethodPost, path, body, nil); code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, code, answer)
	}
}

func remove(t *testing.T, cfg *rest.Config, path string) {
	t.Helper()
	if code, answer := do(t, cfg, http.MethodDelete, path, "", nil); code != http.StatusOK {
		t.Fatalf("DELETE %s: %d %s", path, code, answer)
	}
}

const configMapConstraints = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],` +
	`"operations":["CREATE"],"resources":["configmaps"]}]}`

// validatingPolicy refuses ConfigMaps whose data has the word of the
// parameter. Every other condition is about names, and has to hold.
const validatingPolicy = `{"metadata":{"name":"words"},"spec":{` + configMapConstraints + `,
	"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
	"matchConditions":[{"name":"native","expression":"request.namespace == 'default' && request.userInfo.username == 'admin'"}],
	"validations":[
		{"expression":"!has(object.data) || !object.data.exists(k, object.data[k] == params.data.word)","messageExpression":"'no ' + params.data.word + ' in ' + object.metadata.namespace"},
		{"expression":"object.metadata.namespace == 'default' && namespaceObject.metadata.name == 'default'","message":"namespace"},
		{"expression":"namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default' && !('a4s.io/tenant' in namespaceObject.metadata.labels)","message":"label"},
		{"expression":"params.metadata.namespace == 'default'","message":"parameter"},
		{"expression":"authorizer.group('').resource('pods').namespace('default').check('create').allowed()","message":"authorizer"},
		{"expression":"!authorizer.serviceAccount('default', 'nobody').group('').resource('pods').namespace('default').check('create').allowed()","message":"another's rights"},
		{"expression":"!authorizer.group('').resource('nodes').check('delete').allowed()","message":"rights outside of the space"}
	]}}`

const validatingBinding = `{"metadata":{"name":"words"},"spec":{"policyName":"words","validationActions":["Deny"],
	"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}}},
	"paramRef":{"name":"word","namespace":"default","parameterNotFoundAction":"Deny"}}}`

func (s *space) say(ctx context.Context, word string) (*corev1.ConfigMap, error) {
	cm := configMap("said")
	cm.Data = map[string]string{"said": word}
	return s.client.CoreV1().ConfigMaps("default").Create(ctx, cm,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// refusesWord waits until a ConfigMap with the word is refused, for a reason that ends so. Upstream refuses all for
// another one as long as it knows a policy and not yet its parameters.
func (s *space) refusesWord(t *testing.T, word, want string) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("%s of %s: %v, want %s", word, s.name, last, want)
		}
	}()
	eventually(t, word+" to be refused in "+s.name, func(ctx context.Context) (bool, error) {
		_, last = s.say(ctx, word)
		return last != nil && strings.HasSuffix(last.Error(), want), nil
	})
}

func testValidatingPolicies(t *testing.T, p *plane, a, b *space) {
	ctx := t.Context()
	system := p.as(t, "system", p.Admin)
	for _, s := range []*space{a, b} {
		parameter := configMap("word")
		parameter.Data = map[string]string{"word": "word-" + s.name}
		if _, err := s.client.CoreV1().ConfigMaps("default").
			Create(ctx, parameter, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		post(t, s.config, registration+"validatingadmissionpolicies", validatingPolicy)
		post(t, s.config, registration+"validatingadmissionpolicybindings", validatingBinding)
	}
	for _, s := range []*space{a, b} {
		s.refusesWord(t, "word-"+s.name, fmt.Sprintf(`configmaps "said" is forbidden: ValidatingAdmissionPolicy `+
			`'words' with binding 'words' denied request: no word-%s in default`, s.name))
		if _, err := s.say(ctx, "another"); err != nil {
			t.Errorf("tenant %s: %v", s.name, err)
		}
	}
	if _, err := a.say(ctx, "word-b"); err != nil {
		t.Errorf("refused by another tenant's policy: %v", err)
	}
	if _, err := system.say(ctx, "word-a"); err != nil {
		t.Errorf("the system refused by a tenant's policy: %v", err)
	}
	for _, s := range []*space{a, b} {
		remove(t, s.config, registration+"validatingadmissionpolicybindings/words")
		remove(t, s.config, registration+"validatingadmissionpolicies/words")
		eventually(t, "the policy to go", func(ctx context.Context) (bool, error) {
			_, err := s.say(ctx, "word-"+s.name)
			return err == nil, nil
		})
	}
}

const mutatingPolicy = `{"metadata":{"name":"mark"},"spec":{` + configMapConstraints + `,"reinvocationPolicy":"Never",
	"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
		"Object{metadata: Object.metadata{labels: {'where': string(object.metadata.namespace), 'who': string(request.userInfo.username), 'policy': '%s'}}}"}}]}}`

const mutatingBinding = `{"metadata":{"name":"mark"},"spec":{"policyName":"mark"}}`

func testMutatingPolicies(t *testing.T, p *plane, a, b *space) {
	for _, s := range []*space{a, b} {
		post(t, s.config, registration+"mutatingadmissionpolicies", fmt.Sprintf(mutatingPolicy, s.name))
		post(t, s.config, registration+"mutatingadmissionpolicybindings", mutatingBinding)
	}
	for _, s := range []*space{a, b} {
		eventually(t, "the policy of "+s.name, func(ctx context.Context) (bool, error) {
			cm, err := s.say(ctx, "x")
			if err != nil || cm.Labels["where"] == "" {
				return false, nil // the schema is not loaded yet
			}
			if cm.Labels["where"] != "default" || cm.Labels["who"] != "admin" || cm.Labels["policy"] != s.name ||
				cm.Namespace != "default" || cm.Data["said"] != "x" {
				return false, fmt.Errorf("mutated: %+v", cm)
			}
			return true, nil
		})
	}
	cm, err := p.as(t, "system", p.Admin).say(t.Context(), "x")
	if err != nil || len(cm.Labels) > 0 {
		t.Errorf("the system's: %v, %v", cm, err)
	}
	for _, s := range []*space{a, b} {
		remove(t, s.config, registration+"mutatingadmissionpolicybindings/mark")
		remove(t, s.config, registration+"mutatingadmissionpolicies/mark")
	}
}

func testSystemPolicies(t *testing.T, p *plane, a, b *space) {
	post(t, p.Admin, registration+"validatingadmissionpolicies",
		`{"metadata":{"name":"system"},"spec":{`+configMapConstraints+`,
		"validations":[{"expression":"!has(object.data) || object.data.?said.orValue('') != 'never'","messageExpression":"'not in ' + request.namespace"}]}}`)
	post(t, p.Admin, registration+"validatingadmissionpolicybindings",
		`{"metadata":{"name":"system"},"spec":{"policyName":"system","validationActions":["Deny"]}}`)
	for _, s := range []*space{p.as(t, "system", p.Admin), a, b} {
		s.refusesWord(t, "never", "denied request: not in default")
	}
	if code, _ := get(t, a.config, registration+"validatingadmissionpolicies/system"); code != http.StatusNotFound {
		t.Errorf("a tenant sees the policy of the system: %d", code)
	}
}
