package databases

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// StartNATS runs a NATS server with JetStream on an address of this machine until
// the test ends, and returns its endpoint.
func StartNATS(t testing.TB, host string) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: host, Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Username: "a4s", Password: Password,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(startTimeout) {
		t.Fatal("NATS does not answer")
	}
	return "nats://a4s:" + Password + "@" + s.Addr().String()
}
