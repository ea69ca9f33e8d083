package spaces_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func (d *accessed) testAccount(t *testing.T) {
	for name, seconds := range map[string]int64{"robot": 600} {
		d.give(t, name, func(s *tenantapi.TenantAccessSpec) {
			s.User, s.ServiceAccount = "", &tenantapi.AccessAccount{Namespace: "default", Name: "robot"}
			s.Role, s.ExpirationSeconds = "edit", &seconds
		})
	}
	d.await(t, "robot", tenantapi.ReasonNotIssued) // there is none yet
	accounts := d.a.client.CoreV1().ServiceAccounts("default")
	for range 2 { // it is made, and made again
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// Nobody tells of it: a change of the access has it looked at.
		d.touch(t, "robot")
		d.await(t, "robot", tenantapi.ReasonIssued)
		eventually(t, "its token to work", func(ctx context.Context) (bool, error) {
			_, client := d.by(t, "robot")
			_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
		d.refused(t)
		if err := accounts.Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// refused gives a Secret a token that says all it should and that the API refuses, as after a change
// of its keys.
func (d *accessed) refused(t *testing.T) {
	t.Helper()
	parts := strings.Split(string(d.secret(t, "robot").Data["token"]), ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	claims["iat"] = time.Now().Add(-2 * time.Minute).Unix()
	if text, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	forged := strings.Join([]string{parts[0], base64.RawURLEncoding.EncodeToString(text), parts[2]}, ".")
	body, err := json.Marshal(map[string]any{"data": map[string]any{"token": []byte(forged)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.CoreV1().Secrets("default").Patch(t.Context(), "robot", types.MergePatchType, body,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a token that the API takes", func(ctx context.Context) (bool, error) {
		if string(d.secret(t, "robot").Data["token"]) == forged {
			return false, nil
		}
		_, client := d.by(t, "robot")
		_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// touch has the controller look at an access.
func (d *accessed) touch(t *testing.T, name string) {
	t.Helper()
	if _, err := d.accesses.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil,
		`{"spec":{"expirationSeconds":%d}}`, 600+time.Now().UnixNano()%3000), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
