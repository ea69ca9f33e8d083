package route

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
)

func ofPartition(name string, home bool) *partition {
	return &partition{Partition: origin.Partition{Name: name, Home: home}}
}

// everyName has all names that are mapped, in one namespace.
func everyName(namespace, name string) []runtime.Object {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	ref := corev1.ObjectReference{Namespace: namespace, Name: name}
	secret := func() *corev1.SecretReference { return &corev1.SecretReference{Namespace: namespace, Name: "s"} }
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: m},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.PersistentVolumeClaim{ObjectMeta: m, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &ref,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					ControllerPublishSecretRef: secret(), NodeStageSecretRef: secret(),
					NodePublishSecretRef: secret(), ControllerExpandSecretRef: secret(),
					NodeExpandSecretRef: secret()}}}},
		&corev1.Event{ObjectMeta: m, InvolvedObject: ref, Related: ref.DeepCopy()},
		&eventsv1.Event{ObjectMeta: m, Regarding: ref, Related: ref.DeepCopy()},
		&corev1.SecretList{Items: []corev1.Secret{{ObjectMeta: m}}},
	}
}

// TestNamesThereAndBack maps all names to the node and back.
func TestNamesThereAndBack(t *testing.T) {
	tp2 := ofPartition("tp2", false)
	for _, tc := range []struct {
		p                     *partition
		namespace, name       string
		onNode, nameOnTheNode string
	}{
		{tp2, "kube-system", "pv1", "kube-system.tp2.system", "pv1.tp2.system.tenant"},
		{tp2, "default.t2", "pv1.t2.tenant", "default.t2", "pv1.t2.tenant"},
		{ofPartition("main", true), "kube-system", "pv1", "kube-system", "pv1"},
		// A name of another partition is none of this one's.
		{tp2, "kube-system.tp3.system", "pv1.tp3.system.tenant", "kube-system.tp3.system", "pv1.tp3.system.tenant"},
	} {
		want := everyName(tc.namespace, tc.name)
		onNode := everyName(tc.onNode, tc.name)
		onNode[2].(*corev1.PersistentVolumeClaim).Spec.VolumeName = tc.nameOnTheNode
		onNode[3].(*corev1.PersistentVolume).Name = tc.nameOnTheNode
		for i, obj := range everyName(tc.namespace, tc.name) {
			if err := tc.p.toNode().Map(obj); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(obj, onNode[i]) {
				t.Errorf("on the node it is %v, want %v", obj, onNode[i])
			}
			if err := tc.p.fromNode().Map(obj); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(obj, want[i]) {
				t.Errorf("it comes back as %v, want %v", obj, want[i])
			}
		}
	}
}

// TestAnswersInEachFormat reads and writes JSON and protobuf.
func TestAnswersInEachFormat(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, err := codec.Serializer(contentType)
		if err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"}, Data: map[string][]byte{"a": {0, 1}}}
		body, err := codec.Encode(info, secret)
		if err != nil {
			t.Fatal(err)
		}
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType},
			"Content-Length": {strconv.Itoa(len(body))}}, Body: io.NopCloser(bytes.NewReader(body))}
		if err := ofPartition("tp2", false).toNode().answer(context.Background(), resp, false); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get("Content-Length") != strconv.Itoa(len(out)) ||
			resp.ContentLength != int64(len(out)) {
			t.Errorf("%s: %v, %v", contentType, resp, err)
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(out, nil, nil)
		got, ok := obj.(*corev1.Secret)
		if err != nil || !ok || got.Namespace != "kube-system.tp2.system" ||
			!bytes.Equal(got.Data["a"], []byte{0, 1}) {
			t.Errorf("%s: %v, %v", contentType, obj, err)
		}
	}
	for contentType, body := range map[string]string{"application/json": "{", "text/plain": "x", "": "x",
		runtime.ContentTypeYAML: "{"} {
		for _, watched := range []bool{false, true} {
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}},
				Body: io.NopCloser(bytes.NewReader([]byte(body)))}
			err := ofPartition("tp2", false).toNode().answer(context.Background(), resp, watched)
			if resp.Body == nil {
				t.Fatalf("%q in %q, watch %v: there is no body to close", body, contentType, watched)
			}
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			if err == nil {
				t.Errorf("%q in %q is passed on, watch %v", body, contentType, watched)
			}
		}
	}
}

func TestBodiesThatAreNotTranslated(t *testing.T) {
	names := ofPartition("tp2", false).fromNode()
	const namespace = "kube-system.tp2.system"
	for _, tc := range []struct{ contentType, body string }{
		{"application/strategic-merge-patch+json", `{"status":{"message":"` + namespace + `"}}`},
		{"application/strategic-merge-patch+json", `{"metadata":{"uid":"` + namespace + `"}}`},
		{"application/json-patch+json", `[{"op":"test","path":"/x","value":"` + namespace + `"}]`},
		{"application/json", namespace},
		{"text/plain", namespace},
		{"", namespace},
	} {
		if got := names.requestBody([]byte(tc.body), tc.contentType, namespace); string(got) != tc.body {
			t.Errorf("%s: %s became %s", tc.contentType, tc.body, got)
		}
	}
}
