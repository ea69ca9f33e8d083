package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The default service account of an earlier run does not mean that the
// controllers of this one are built.
func TestReadyOnlyWhenControllersRun(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// the client would fail
		w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)) //nolint:errcheck // see above
	}))
	defer api.Close()
	r := newRunning()
	cfg := &rest.Config{Host: api.URL, UserAgent: "a4s/v1"}
	cfg.Wrap(r.Wrap)
	client := func(name string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(rest.AddUserAgent(rest.CopyConfig(cfg), name))
	}
	ctx := context.Background()
	for name, request := range map[string]func(){
		"health with the informers' client": func() {
			client(informerClient).Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx)
		},
		// only that it was asked counts
		"service account of an earlier start": func() {
			client("setup").CoreV1().ServiceAccounts("default").Get(ctx, "default", //nolint:errcheck
				metav1.GetOptions{})
		},
	} {
		request()
		select {
		case <-r.Done():
			t.Fatalf("%s: taken for running controllers", name)
		default:
		}
	}
	if _, err := client(informerClient).CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	default:
		t.Fatal("the informers run and it was not noticed")
	}
}
