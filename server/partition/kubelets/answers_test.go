package kubelets

import (
	"context"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestAnswers: a kubelet answers that says who it is. One that hangs, whose kernel takes
// connections, does not, and nothing else that listens there.
func TestAnswers(t *testing.T) {
	k := newKubelet(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw})
	if err := Answers(t.Context(), rest.TLSClientConfig{CAData: ca}, k.node); err != nil {
		t.Errorf("it answers: %v", err)
	}
	if err := Answers(t.Context(), rest.TLSClientConfig{}, k.node); err == nil {
		t.Error("another one answers")
	}
	k.Close()
	if err := Answers(t.Context(), rest.TLSClientConfig{CAData: ca}, k.node); err == nil {
		t.Error("it has ended, and answers")
	}
	hung, err := net.Listen("tcp", k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Answers(ctx, rest.TLSClientConfig{CAData: ca}, k.node); err == nil {
		t.Error("it hangs, and answers")
	}
}
