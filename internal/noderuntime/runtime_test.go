package noderuntime

import (
	"errors"
	"slices"
	"testing"

	"github.com/a4s-io/a4s/internal/workload"
)

func TestOfNode(t *testing.T) {
	containerd := Runtime{Name: Containerd, Type: workload.Container, Endpoint: Builtin}
	vm := Runtime{Name: "vm", Type: workload.VM, Endpoint: Builtin}
	primary := func(r Runtime) Runtime { r.Primary = true; return r }
	at := func(r Runtime, endpoint string) Runtime { r.Endpoint = endpoint; return r }
	crio := Runtime{Name: "crio", Type: workload.Container, Endpoint: "unix:///run/crio.sock"}
	for _, c := range []struct {
		name     string
		given    []string
		endpoint string
		want     []Runtime
		err      error
	}{
		{name: "none", want: []Runtime{primary(containerd)}},
		{name: "external containers", endpoint: "/run/x.sock",
			want: []Runtime{primary(at(containerd, "unix:///run/x.sock"))}},
		{name: "machines beside", given: []string{"vm,vm,builtin"}, want: []Runtime{primary(containerd), vm}},
		{name: "machines beside external containers", given: []string{"vm,vm,builtin"}, endpoint: "unix:///run/x.sock",
			want: []Runtime{primary(at(containerd, "unix:///run/x.sock")), vm}},
		{name: "machines first", given: []string{"vm,vm,builtin,primary"}, want: []Runtime{containerd, primary(vm)}},
		{name: "the first of two is primary",
			given: []string{"vm,vm,builtin", "containerd,container,builtin", "crio,container,/run/crio.sock"},
			want:  []Runtime{vm, primary(containerd), crio}},
		{name: "the marked one is primary",
			given: []string{"containerd, container, builtin", "crio,container,unix:///run/crio.sock,primary"},
			want:  []Runtime{containerd, primary(crio)}},

		{name: "too few parts", given: []string{"crio,container"}, err: ErrForm},
		{name: "too many parts", given: []string{"crio,container,/a,primary,primary"}, err: ErrForm},
		{name: "another word", given: []string{"crio,container,/a,default"}, err: ErrForm},
		{name: "unknown type", given: []string{"crio,wasm,/a"}, err: workload.ErrUnknownType},
		{name: "bad name", given: []string{"Crio,container,/a"}, err: ErrName},
		{name: "name of another type", given: []string{"vm,container,/a"}, err: ErrName},
		{name: "relative socket", given: []string{"crio,container,run/a"}, err: ErrEndpoint},
		{name: "over TCP", given: []string{"crio,container,tcp://a"}, err: ErrEndpoint},
		{name: "no endpoint", given: []string{"crio,container,"}, err: ErrEndpoint},
		{name: "one name", given: []string{"a,container,/a", "a,vm,/b"}, err: ErrTaken},
		{name: "the name of the default", given: []string{"containerd,vm,/a"}, err: ErrTaken},
		{name: "one socket", given: []string{"a,container,/a", "b,vm,unix:///a"}, err: ErrTaken},
		{name: "builtin twice", given: []string{"a,vm,builtin", "b,vm,builtin"}, err: ErrTaken},
		{name: "two primaries", given: []string{"a,vm,/a,primary", "b,container,/b,primary"}, err: ErrPrimary},
		{name: "containers in two ways", given: []string{"a,container,/a"}, endpoint: "/b", err: ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := OfNode(c.given, c.endpoint)
			if !errors.Is(err, c.err) || !slices.Equal(got, c.want) {
				t.Errorf("OfNode = %+v, %v; want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
}
