package wire

import (
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

func TestSelectors(t *testing.T) {
	events := Resource{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}
	claims := Resource{Version: "v1", Resource: "persistentvolumeclaims",
		Kind: "PersistentVolumeClaim", Namespaced: true}
	field, label := (*Projector).FieldSelector, (*Projector).LabelSelector
	tests := []struct {
		name, tenant string
		of           func(*Projector, Resource, string) (string, error)
		r            Resource
		in, want     string
	}{
		{"namespace", "t1", field, podKind(), "metadata.namespace=default,status.phase!=Failed",
			"metadata.namespace=default.t1,status.phase!=Failed"},
		{"not", "t1", field, podKind(), "metadata.namespace!=default", "metadata.namespace!=default.t1"},
		{"name of a pod", "t1", field, podKind(), "metadata.name==web", "metadata.name==web"},
		{"name of a namespace", "t1", field, namespaceKind(), "metadata.name=default", "metadata.name=default.t1"},
		{"name of a volume", "t1", field, volumeKind(), "metadata.name=pv1", "metadata.name=pv1.t1.tenant"},
		{"name of a shared role", "t1", field, clusterRoleKind(), "metadata.name=view", "metadata.name=view"},
		{"name of a shared object", "t1", field, classKind(), "metadata.name=fast", "metadata.name=fast"},
		{"events of a pod", "t1", field, events,
			"involvedObject.kind=Pod,involvedObject.name=web,involvedObject.namespace=default",
			"involvedObject.kind=Pod,involvedObject.name=web,involvedObject.namespace=default.t1"},
		{"events of a volume", "t1", field, events, "involvedObject.name=pv1,involvedObject.kind=PersistentVolume",
			"involvedObject.kind=PersistentVolume,involvedObject.name=pv1.t1.tenant"},
		{"events of a namespace", "t1", field, events, "regarding.name=x,regarding.kind=Namespace",
			"regarding.kind=Namespace,regarding.name=x.t1"},
		{"events of a role", "t1", field, events, "involvedObject.kind=ClusterRole,involvedObject.name=x",
			"involvedObject.kind=ClusterRole,involvedObject.name=x.t1.tenant"},
		{"events of a custom resource", "t1", field, events,
			"involvedObject.kind=ClusterIssuer,involvedObject.name=ca",
			"involvedObject.kind=ClusterIssuer,involvedObject.name=ca.t1.tenant"},
		{"events of a custom resource with its group", "t1", field, events,
			"regarding.apiVersion=issuers.example.com/v1,regarding.kind=ClusterIssuer,regarding.name=ca",
			"regarding.apiVersion=issuers.example.com/v1,regarding.kind=ClusterIssuer,regarding.name=ca.t1.tenant"},
		{"events of a kind of another group", "t1", field, events,
			"regarding.apiVersion=other.example.com/v1,regarding.kind=ClusterIssuer,regarding.name=ca",
			"regarding.apiVersion=other.example.com/v1,regarding.kind=ClusterIssuer,regarding.name=ca"},
		{"volume of a claim", "t1", field, claims, "spec.volumeName=pv1", "spec.volumeName=pv1.t1.tenant"},
		{"unreadable", "t1", field, podKind(), "metadata.namespace", "metadata.namespace"},
		{"system", space.System, field, podKind(), "metadata.namespace=default", "metadata.namespace=default"},
		{"label", "t1", label, namespaceKind(), "kubernetes.io/metadata.name=default",
			"kubernetes.io/metadata.name=default.t1"},
		{"labels", "t1", label, namespaceKind(), "a=b,kubernetes.io/metadata.name notin (a,b),!c",
			"a=b,!c,kubernetes.io/metadata.name notin (a.t1,b.t1)"},
		{"label exists", "t1", label, namespaceKind(), "kubernetes.io/metadata.name", "kubernetes.io/metadata.name"},
		{"label of pods", "t1", label, podKind(), "kubernetes.io/metadata.name=default",
			"kubernetes.io/metadata.name=default"},
		{"label unreadable", "t1", label, namespaceKind(), "kubernetes.io/metadata.name in (",
			"kubernetes.io/metadata.name in ("},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.of(protoProjector(tt.tenant), tt.r, tt.in)
			if err != nil || got != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
