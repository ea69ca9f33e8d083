package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/hosts"
)

// sameLists checks that a client that merges the groups lists what the datastore has.
func (c *cluster) sameLists(t *testing.T, merged kubernetes.Interface) {
	t.Helper()
	got, err := merged.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{
		ResourceVersion: got.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err != nil {
		t.Fatal(err)
	}
	names := func(list *corev1.ConfigMapList) (all []string) {
		for _, o := range list.Items {
			all = append(all, o.Namespace+"/"+o.Name+"@"+o.ResourceVersion)
		}
		slices.Sort(all)
		return all
	}
	if got, want := names(got), names(want); !slices.Equal(got, want) {
		t.Errorf("merged, a list has %q\nwant %q", got, want)
	}
}

// waitListOf waits until the audit log says that the server has listed a stream.
func (c *cluster) waitListOf(t *testing.T, stream string) {
	t.Helper()
	hosts.Until(t, soon, c.host.Name+" lists the stream of "+stream, func(context.Context) error {
		log, err := os.ReadFile(c.host.Path(auditLog))
		if err != nil {
			return err
		}
		for line := range bytes.Lines(log) {
			if bytes.Contains(line, []byte("/api/v1/configmaps?resourceVersion=")) &&
				bytes.Contains(line, []byte("resourceVersionMatch=Exact")) &&
				bytes.Contains(line, []byte(`"a4s.io/stream":"`+stream+`"`)) {
				return nil
			}
		}
		return errors.New("it has not")
	})
}
