package vm

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/records"
)

func testStore(t *testing.T, dir string) *store {
	t.Helper()
	sandboxes, err := records.Open[sandboxRecord](filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	containers, err := records.Open[containerRecord](filepath.Join(dir, "c"))
	if err != nil {
		t.Fatal(err)
	}
	return newStore(sandboxes, containers)
}

func testSandbox(id string) *sandbox {
	return newSandbox(sandboxRecord{
		ID: id, Phase: phaseReady, Created: time.Unix(1, 2).UTC(), IPs: []string{"10.0.0.1", "fd00::1"},
		Config: sandboxConfig{&runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod-" + id, Namespace: "ns", Uid: "u", Attempt: 1},
			Labels:   map[string]string{"app": id},
		}},
	})
}

func TestRecordsKeepWhatTheCRITells(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir)
	p := testSandbox("a1")
	if err := s.addSandbox(p); err != nil {
		t.Fatal(err)
	}
	c := newContainer(p, containerRecord{
		ID: "c1", SandboxID: p.id, State: stateExited, ExitCode: 3, Reason: reasonError, Created: time.Unix(2, 0),
		Finished: time.Unix(4, 0),
		Config: containerConfig{
			&runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, LogPath: "x.log"},
		}, User: &userIDs{UID: 7},
	})
	if err := s.addContainer(c); err != nil {
		t.Fatal(err)
	}
	again := testStore(t, dir)
	sandboxes, err := again.sandboxDir.All()
	if err != nil {
		t.Fatal(err)
	}
	containers, err := again.containerDir.All()
	if err != nil {
		t.Fatal(err)
	}
	st := sandboxStatus(sandboxes["a1"])
	if st.Metadata.GetName() != "pod-a1" || st.State != runtimeapi.PodSandboxState_SANDBOX_READY ||
		st.Network.Ip != "10.0.0.1" || st.Network.AdditionalIps[0].Ip != "fd00::1" || st.CreatedAt != 1e9+2 {
		t.Errorf("sandbox %v", st)
	}
	cst := containerStatus(containers["c1"])
	if cst.Metadata.GetName() != "main" || cst.State != runtimeapi.ContainerState_CONTAINER_EXITED ||
		cst.ExitCode != 3 || cst.StartedAt != 0 || cst.FinishedAt != 4e9 || cst.User.Linux.Uid != 7 {
		t.Errorf("container %v", cst)
	}
}

func TestNamesAreTakenOnceAndIDsMayBeShort(t *testing.T) {
	s := testStore(t, t.TempDir())
	for _, id := range []string{"ab1", "ab2"} {
		if err := s.addSandbox(testSandbox(id)); err != nil {
			t.Fatal(err)
		}
	}
	twin := testSandbox("ab1")
	twin.id = "zz"
	if err := s.addSandbox(twin); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a name taken twice: %v", err)
	}
	for id, want := range map[string]codes.Code{"ab1": codes.OK, "ab2": codes.OK, "ab": codes.InvalidArgument,
		"x": codes.NotFound, "": codes.InvalidArgument} {
		if _, err := s.sandbox(id); status.Code(err) != want {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
	}
	p, err := s.sandbox("ab1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.removeSandbox(p); err != nil {
		t.Fatal(err)
	}
	if err := s.addSandbox(testSandbox("ab1")); err != nil {
		t.Errorf("the name of a removed sandbox: %v", err)
	}
}

func TestListsFilter(t *testing.T) {
	s := &lists{store: testStore(t, t.TempDir())}
	stopped := testSandbox("s2")
	stopped.record.Phase = phaseStopped
	creating := testSandbox("s3")
	creating.record.Phase = phaseCreating
	for _, p := range []*sandbox{testSandbox("s1"), stopped, creating} {
		if err := s.store.addSandbox(p); err != nil {
			t.Fatal(err)
		}
	}
	state := func(st runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
		return &runtimeapi.PodSandboxStateValue{State: st}
	}
	for name, tc := range map[string]struct {
		filter *runtimeapi.PodSandboxFilter
		want   int
	}{
		"all that is there": {nil, 2},
		"ready": {&runtimeapi.PodSandboxFilter{State: state(runtimeapi.PodSandboxState_SANDBOX_READY)},
			1},
		"label": {&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"app": "s2"}}, 1},
		"label of another": {&runtimeapi.PodSandboxFilter{Id: "s1", LabelSelector: map[string]string{"app": "s2"}},
			0},
		"unknown id":          {&runtimeapi.PodSandboxFilter{Id: "x"}, 0},
		"beginning of an id":  {&runtimeapi.PodSandboxFilter{Id: "s1"}, 1},
		"nobody knows it yet": {&runtimeapi.PodSandboxFilter{Id: "s3"}, 0},
	} {
		if got := s.sandboxes(tc.filter); len(got) != tc.want {
			t.Errorf("%s: %d, want %d", name, len(got), tc.want)
		}
	}
}

func TestRateOfUse(t *testing.T) {
	var s rates
	start := time.Unix(100, 0)
	for _, step := range []struct {
		after, used time.Duration
		want        uint64
	}{
		{0, time.Second, 0}, // nothing to compare with
		{2 * time.Second, 2 * time.Second, 5e8},
		{2*time.Second + time.Millisecond, 3 * time.Second, 5e8}, // too soon
		{4 * time.Second, 2 * time.Second, 0},
		{5 * time.Second, 0, 0}, // it began anew
	} {
		if got := s.rate("c", start.Add(step.after), step.used); got != step.want {
			t.Errorf("after %s: %d, want %d", step.after, got, step.want)
		}
	}
}
